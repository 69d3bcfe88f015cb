"""The bolts of the scenarios."""

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from spout_sdk import AsyncBolt, BasicBolt, KafkaBolt, OutputCollector, Tuple
from spout_sdk.api.row_types import RowType
from spout_sdk.state import StatefulBolt
from spout_sdk.steps.topic_bolt import TopicBolt
from tests.components import ByHand, InBatches, kinds
from tests.contract.scenario import WORDS, Make, Part, Scene, split_of

KINDS = ("basic", "by_hand", "batches", "columns", "coroutines", "steps")


class Text(NamedTuple):
    number: int
    text: str


class Word(NamedTuple):
    number: int
    word: str


def kind(name: str, of: str) -> Make:
    """A bolt of a kind that emits each word of its input; coroutines wait before that."""
    if of == "steps":
        return splitting(name)

    def make(scene: Scene) -> Any:
        made = kinds(split_of(scene, name), WORDS)

        class Coroutines(made.coroutines):  # type: ignore[name-defined,misc]
            async def execute_async(self, tuple_: Tuple, collector: Any) -> None:
                await asyncio.sleep(0)
                await super().execute_async(tuple_, collector)

        return Coroutines if of == "coroutines" else getattr(made, of)

    return make


def splitting(name: str) -> Make:
    """A step that returns each word of its input."""

    def make(scene: Scene) -> Any:
        emits: Any = split_of(scene, name)

        def split(text: Text) -> Iterator[Word]:
            for values, _ in emits(text, None):
                yield Word(*values)

        return split

    return make


def to_results(name: str) -> Make:
    """Writes each row to the results, as `Stream.to` does."""

    def make(scene: Scene) -> Any:
        def key(word: Word) -> None:
            scene.executes(name, word.word)
            scene.has_executed(name, *word)

        return TopicBolt(scene.results_topic, RowType(Word), key, "json")

    return make


def publish(name: str) -> Make:
    """A `KafkaBolt` that writes the results."""

    def make(scene: Scene) -> Callable[[], KafkaBolt]:
        def value(tuple_: Tuple) -> bytes:
            scene.executes(name, tuple_["word"])
            scene.has_executed(name, tuple_.values[0], tuple_["word"])
            return json.dumps(tuple_.values).encode()

        return lambda: KafkaBolt(scene.results_topic, value=value)

    return make


def line(of: str = "basic", *links: str, **options: Any) -> tuple[Part, ...]:
    """`split`, with options, and `end`, which writes the results."""
    first, second = links if len(links) == 2 else (*links, *links) if links else ("shuffle", "shuffle")
    return (
        Part("split", kind("split", of), first, options=options),  # type: ignore[arg-type]
        Part("end", (to_results if of == "steps" else publish)("end"), second),  # type: ignore[arg-type]
    )


def through(middle: Part, *links: str, **options: Any) -> tuple[Part, ...]:
    """A line with a bolt between its two."""
    first, last = line("basic", *links, **options)
    return first, middle, last


class Pairing:
    """Emits for two inputs at a time, anchored to both; a single one waits for a tick."""

    collector: OutputCollector
    held: list[Tuple]
    scene: Scene

    def take(self, tuple_: Tuple) -> None:
        self.scene.executes("pair", tuple_["word"])
        self.held.append(tuple_)
        if len(self.held) == 2:
            self.emit()

    def emit(self) -> None:
        held, self.held = self.held, []
        for each in held:
            self.collector.emit(each.values, anchors=[*held, held[0]])
            self.scene.has_executed("pair", *each.values)
        for each in held:
            self.collector.ack(each)


def pair(scene_: Scene) -> Any:
    class Pair(Pairing, ByHand):
        streams = (WORDS,)
        tick_interval = 0.3
        scene = scene_

        def execute(self, tuple_: Tuple) -> None:
            if not tuple_.is_tick:
                self.take(tuple_)
            elif self.held:
                self.emit()

    return Pair


def together(scene: Scene) -> Any:
    """Emits for all inputs of a call, anchored to all of them."""

    class Together(InBatches):
        streams = (WORDS,)

        def execute_batch(self, tuples: Sequence[Tuple]) -> None:
            for each in tuples:
                scene.executes("pair", each["word"])
                self.collector.emit(each.values, anchors=tuples)
                scene.has_executed("pair", *each.values)
            self.collector.ack_all(tuples)

    return Together


def writing(name: str, topics: Callable[[Scene, str], Sequence[str]] = lambda scene, _: [scene.results_topic]) -> Make:
    """Writes a record for each input to each of its topics; the delivery of all acks it."""

    def make(scene: Scene) -> Any:
        class Write(ByHand):
            def execute(self, tuple_: Tuple) -> None:
                number, word = tuple_.values
                scene.executes(name, word)
                for topic in topics(scene, word):
                    self.collector.write(tuple_, topic, json.dumps([number, word]).encode())
                scene.has_executed(name, number, word)

        return Write

    return make


def answering(of: str) -> Make:
    """Answers each message with its words in upper case."""

    def make(scene: Scene) -> Any:
        def answer(tuple_: Tuple) -> str:
            scene.executes("end", tuple_["text"])
            scene.has_executed("end", *tuple_.values)
            return str(tuple_["text"].upper())

        class Basic(BasicBolt):
            answers = True

            def execute(self, tuple_: Tuple, collector: Any) -> None:
                collector.answer(answer(tuple_))

        class ByItself(ByHand):
            answers = True

            def execute(self, tuple_: Tuple) -> None:
                self.collector.answer(tuple_, answer(tuple_))

        class Batches(InBatches):
            answers = True

            def execute_batch(self, tuples: Sequence[Tuple]) -> None:
                for tuple_ in tuples:
                    self.collector.answer(tuple_, answer(tuple_))

        class Coroutines(AsyncBolt):
            answers = True

            async def execute_async(self, tuple_: Tuple, collector: Any) -> None:
                collector.answer(answer(tuple_))

        class State(StatefulBolt):
            answers = True
            state = int

            def update(self, value: int, tuple_: Tuple) -> int:
                return value + 1

            def emit(self, key: str, value: int, tuple_: Tuple, collector: Any) -> None:
                collector.answer(answer(tuple_))

        kinds_ = {"basic": Basic, "by_hand": ByItself, "batches": Batches, "coroutines": Coroutines, "state": State}
        return kinds_[of]

    return make


def too_large(scene: Scene) -> Any:
    """Emits each word; the tuple of a `d` is too large to be delivered."""

    class TooLarge(BasicBolt):
        streams = (WORDS,)

        def execute(self, tuple_: Tuple, collector: Any) -> None:
            number, text = tuple_.values
            scene.executes("split", text)
            for word in text.split():
                collector.emit((number, word if word != "d" else "d" * 2_000_000))

    return TooLarge

"""A spout and bolts whose tuples and functions a test chooses; they also run in other threads."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from spout_sdk import (
    Bolt,
    Failure,
    OutputCollector,
    Spout,
    SpoutCollector,
    TaskContext,
    TopologyBuilder,
    Tuple,
    declare,
)
from spout_sdk.arrow import ArrowBolt, ArrowCollector
from tests import packs
from tests.contract.world import Read
from tests.packs import tuples_of
from tuple_tree.anchors import Edges

STREAMS = (declare({"word": str, "number": int}),)


def packed(*tuples: tuple[str, int]) -> bytes:
    """The payload of a record with these tuples."""
    return packs.packed(STREAMS[0], *tuples)


def tuples_in(records: Iterable[Read]) -> list[tuple[Any, Edges]]:
    """Values and edges of the tuples of records."""
    return [each for record in records for each in tuples_of(record.value or b"", record.headers, STREAMS[0])]


Execute = Callable[[Tuple, OutputCollector], None]


@dataclass
class Messages:
    """The messages of a spout, and their outcomes."""

    waiting: deque[tuple[Sequence[Any], Any]] = field(default_factory=deque)  # values and message id
    acked: list[tuple[int, Any]] = field(default_factory=list)  # task and message id
    failed: list[tuple[int, Any, Failure]] = field(default_factory=list)
    replays: bool = False  # whether failed messages are emitted again
    tasks: set[int] = field(default_factory=set)  # that have opened
    emitted_by: dict[Any, int] = field(default_factory=dict)  # message id → the task that emitted it last

    def add(self, word: str, number: int = 0, message_id: Any = "word") -> None:
        """Adds a tuple for the spout; its message id is the word by default."""
        self.waiting.append(((word, number), word if message_id == "word" else message_id))

    @property
    def acked_ids(self) -> list[Any]:
        return [message_id for _, message_id in self.acked]

    @property
    def failed_ids(self) -> list[Any]:
        return [message_id for _, message_id, _ in self.failed]


class MessageSpout(Spout):
    """Emits the waiting messages."""

    streams = STREAMS

    def __init__(self, messages: Messages) -> None:
        self.messages = messages

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        self.task = context.task
        self.collector = collector
        self.values: dict[Any, Sequence[Any]] = {}
        self.messages.tasks.add(self.task)

    def next_tuple(self) -> None:
        try:
            values, message_id = self.messages.waiting.popleft()
        except IndexError:
            return
        if message_id is not None:
            self.values[message_id] = values
            self.messages.emitted_by[message_id] = self.task
        self.collector.emit(values, message_id=message_id)

    def ack(self, message_id: Any) -> None:
        self.messages.acked.append((self.task, message_id))

    def fail(self, message_id: Any, failure: Failure) -> None:
        self.messages.failed.append((self.task, message_id, failure))
        if self.messages.replays:
            self.messages.waiting.append((self.values[message_id], message_id))


@dataclass
class Executed:
    """The function of a bolt's tasks, and the tuples that they executed."""

    execute: Execute
    seen: list[tuple[int, str, int]] = field(default_factory=list)  # task, word and number, in order

    @property
    def words(self) -> list[str]:
        return [word for _, word, _ in self.seen]


class FunctionBolt(Bolt):
    """Calls a function of the test for each tuple."""

    streams = STREAMS

    def __init__(self, executed: Executed) -> None:
        self.executed = executed

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self.task = context.task
        self.collector = collector

    def execute(self, tuple_: Tuple) -> None:
        self.executed.seen.append((self.task, tuple_["word"], tuple_["number"]))
        self.executed.execute(tuple_, self.collector)


class OddFirst(ArrowBolt):
    """Emits two rows for each, and fails even numbers the first time."""

    streams = STREAMS

    def prepare(self, context: TaskContext) -> None:
        self.seen: set[int] = set()

    def execute_batch(self, batch: Any, collector: ArrowCollector) -> None:
        numbers = batch.column("number").to_numpy()
        later = np.array([number % 2 == 0 and number not in self.seen for number in numbers.tolist()])
        self.seen.update(numbers.tolist())
        collector.fail("even ones later", rows=later)
        now = np.flatnonzero(~later)
        twice = np.repeat(now, 2)
        words = batch.column("word").take(twice)
        collector.emit({"word": words, "number": numbers[twice] + 1_000 * (np.arange(len(twice)) % 2)}, anchors=twice)
        collector.ack()


def ack(tuple_: Tuple, collector: OutputCollector) -> None:
    collector.ack(tuple_)


def pass_on(tuple_: Tuple, collector: OutputCollector) -> None:
    collector.emit(tuple_.values, anchors=tuple_)
    collector.ack(tuple_)


class Hold:
    """Holds the tuples of some words and acks others; the word `release` acks all."""

    def __init__(self, *words: str) -> None:
        self._words = words
        self.held: list[Tuple] = []

    def __call__(self, tuple_: Tuple, collector: OutputCollector) -> None:
        if tuple_["word"] == "release":
            for held in self.held:
                collector.ack(held)
            self.held.clear()
        if tuple_["word"] in self._words:
            self.held.append(tuple_)
        else:
            collector.ack(tuple_)


def line(
    builder: TopologyBuilder, first: Execute, second: Execute = ack, tasks: int = 1
) -> tuple[Messages, Executed, Executed]:
    """A spout and two bolts, one behind the other; the first bolt may have several tasks."""
    messages, one = alone(builder, first, tasks, "one")
    two = Executed(second)
    builder.set_bolt("two", partial(FunctionBolt, two)).shuffle_grouping("one")
    return messages, one, two


def alone(builder: TopologyBuilder, execute: Execute, tasks: int = 1, name: str = "bolt") -> tuple[Messages, Executed]:
    """A spout and a bolt."""
    messages, executed = Messages(), Executed(execute)
    builder.set_spout("spout", partial(MessageSpout, messages))
    builder.set_bolt(name, partial(FunctionBolt, executed), tasks=tasks).shuffle_grouping("spout")
    return messages, executed

"""Scenarios: a small topology that reads messages, what happens to it meanwhile, and what must come out of it.

A message is a text of words. `split` emits a tuple for each word, and the last bolt writes it to the results, unless
the scenario says otherwise. Each message has one outcome, no tree is acked before its last tuple was executed, and
everything is committed at the end.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from spout_sdk import Failure, KafkaSpout, RetryPolicy, TaskContext, Topology, declare
from spout_sdk.kafka_spout import Record
from tests.components import Emits
from tests.contract.lives import at
from tests.contract.world import Running, World
from tuple_tree.manifest import Guarantee
from tuple_tree.names import dead_letters_topic

LINES: Final = declare({"number": int, "text": str})
WORDS: Final = declare({"number": int, "word": str})
REPLAYING: Final[tuple[Guarantee, ...]] = ("at_least_once", "exactly_once")
"""The guarantees that follow trees."""
TEXTS: Final = ("a b", "b", "c a d", "b c")
AT_ONCE: Final = RetryPolicy(initial_delay=0.0, delay_period=0.05)

Times = Literal["once", "at least once", "at most once", "any"]
"""How often each result is there; with `any`, the check of the scenario looks at them."""

Make = Callable[["Scene"], Any]
"""Makes the factory of a bolt."""

Do = Callable[["Scene"], object]
"""Something that happens to a topology."""


@dataclass(frozen=True)
class Part:
    """A bolt.

    Attributes:
        name: of the bolt.
        make: makes its factory.
        link: the grouping; `word` and `text` are groupings by that field.
        source: the bolt before it in the list, or the spout, unless given.
        options: of `set_bolt`.
    """

    name: str
    make: Make
    link: Literal["shuffle", "local", "word", "text", "global"] = "shuffle"
    source: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Scenario:
    """A topology, what happens to it, and what must come out.

    Attributes:
        name: unique within the theme.
        bolts: in order.
        happens: what happens; messages are fed first if it is empty.
        texts: the messages.
        guarantee: of the topology.
        times: how often each result is there.
        raises: bolt and word → how many executions of it raise.
        error: what they raise.
        outcomes: number of a message → its outcome, unless that is `acked`.
        lacks: words, or numbers of messages, that are not executed to their end.
        results: all results, unless there is one for each word.
        ends: the bolt that executes each word to its end before the message is acked; the last one by default.
        state: the state of the bolt `count` at the end.
        letters: for each dead letter, the task that wrote it.
        attempts: number of a message → its attempts by its outcome; not checked unless given.
        check: what else must hold.
        deaths: how many processes are killed.
        settings: of the topology.
        spout: arguments of the `KafkaSpout`.
        is_quick: whether `make test` runs it on a real broker.
    """

    name: str
    bolts: Sequence[Part]
    happens: Sequence[Do] = ()
    texts: Sequence[str] = TEXTS
    guarantee: Guarantee = "at_least_once"
    times: Times = "once"
    raises: Mapping[tuple[str, str], int] = field(default_factory=dict)
    error: Callable[[str], BaseException] = ValueError
    outcomes: Mapping[int, str] = field(default_factory=dict)
    lacks: Sequence[str | int] = ()
    results: Mapping[Any, int] | None = None
    ends: str | None = None
    state: Mapping[Any, Any] | None = None
    letters: Sequence[str] = ()
    attempts: Mapping[int, int] = field(default_factory=dict)
    check: Do = bool
    deaths: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    spout: Mapping[str, Any] = field(default_factory=dict)
    is_quick: bool = False

    @property
    def words(self) -> Counter[tuple[int, str]]:
        """Number and word of each tuple that the last bolt executes to its end."""
        parts = Counter((number, word) for number, text in enumerate(self.texts) for word in text.split())
        return Counter({part: times for part, times in parts.items() if not {*part} & {*self.lacks}})

    @property
    def expected(self) -> Counter[Any]:
        """The results."""
        return self.words if self.results is None else Counter(self.results)

    def play(self, world: World) -> None:
        """Runs it in a world, and checks what has come out."""
        scene = Scene(self, world)
        with world.run(scene.topology, {scene.source: 1, scene.results_topic: 1, scene.outcomes_topic: 1}) as running:
            scene.running = running
            for do in self.happens or (feed,):
                do(scene)
            scene.finish()


class Scene:
    """A scenario that runs. Its components note here what they do; that survives their processes.

    Attributes:
        executed: bolt → number and word of each input, how often it was executed to its end.
        raised: bolt and word → how often its execution has raised.
        acked, failed: what the spout was told.
        seen: notes of steps of the scenario.
    """

    running: Running

    def __init__(self, scenario: Scenario, world: World) -> None:
        self.scenario = scenario
        self.executed: defaultdict[str, Counter[tuple[int, str]]] = defaultdict(Counter)
        self.raised: Counter[tuple[str, str]] = Counter()
        self.acked: list[int] = []
        self.failed: list[tuple[int, Failure]] = []
        self.seen: list[Any] = []
        self.false_acks: list[int] = []
        self.fed = 0
        self.topology = self._build(world)

    def _build(self, world: World) -> Topology:
        scenario = self.scenario
        settings = {"ack_partitions": 2, "message_timeout": 30.0, **scenario.settings}
        builder = world.builder(guarantee=scenario.guarantee, **settings)
        self.name = str(builder._name)
        outcomes = {} if scenario.guarantee == "at_most_once" else {"outcomes": self.outcomes_topic}
        builder.set_spout("messages", Messages(self, **{"retry": AT_ONCE, **outcomes, **scenario.spout}))
        source = "messages"
        for part in scenario.bolts:
            declared = builder.set_bolt(part.name, part.make(self), **part.options)
            fields = (part.link,) if part.link in ("word", "text") else ()
            link = "fields" if fields else part.link
            getattr(declared, f"{link}_grouping")(part.source or source, *fields)
            source = part.name
        return builder.build()

    @property
    def source(self) -> str:
        return f"{self.name}-messages"

    @property
    def results_topic(self) -> str:
        return f"{self.name}-results"

    @property
    def outcomes_topic(self) -> str:
        return f"{self.name}-outcomes"

    # What components call.

    def executes(self, bolt: str, text: str) -> None:
        """At the beginning of an execution, which may die or raise."""
        at("executes")
        for word in text.split():
            if self.raised[bolt, word] < self.scenario.raises.get((bolt, word), 0):
                self.raised[bolt, word] += 1
                raise self.scenario.error(word)

    def has_executed(self, bolt: str, number: int, text: str) -> None:
        self.executed[bolt][number, text] += 1
        at("has emitted")

    def note_ack(self, number: int) -> None:
        self.acked.append(number)
        last = self.scenario.ends or self.scenario.bolts[-1].name
        # A bolt behind the spout executes whole texts.
        executed = {(number, word) for number, text in self.executed[last] for word in text.split()}
        wanted = {each for each in self.scenario.words if each[0] == number}
        if self.scenario.guarantee != "at_most_once" and not wanted <= executed:
            self.false_acks.append(number)

    # What comes out.

    def results(self) -> Counter[Any]:
        found = (json.loads(record.value or b"") for record in self.running.records(self.results_topic))
        return Counter(tuple(each.values()) if isinstance(each, dict) else tuple(each) for each in found)

    def outcomes(self) -> dict[int, list[dict[str, Any]]]:
        """Number of a message → its outcomes."""
        found: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
        for record in self.running.records(self.outcomes_topic):
            outcome = json.loads(record.value or b"")
            found[outcome["offset"]].append(outcome)
        return found

    def letters(self) -> list[str]:
        records = self.running.records(dead_letters_topic(self.topology.name))
        return sorted(record.header["dead-letter.by"].decode() for record in records)

    def finish(self) -> None:
        """Waits until all that must come out is there, and checks that nothing else is."""
        scenario, running = self.scenario, self.running
        running.eventually(lambda: running.deaths >= scenario.deaths, "all deaths")
        running.eventually(lambda: not self.missing(), f"nothing missing of {scenario.name}")
        assert running.deaths == scenario.deaths
        assert not self.false_acks, "messages are acked before their last tuple was executed"
        found, expected = self.results(), scenario.expected
        if scenario.times == "once":
            assert found == expected
        elif scenario.times == "at least once":
            assert found.keys() == expected.keys()
        elif scenario.times == "at most once":
            assert found <= expected
        if scenario.guarantee != "at_most_once":
            outcomes = self.outcomes()
            ends = {number: {each["outcome"] for each in found} for number, found in outcomes.items()}
            assert ends == {number: {scenario.outcomes.get(number, "acked")} for number in range(self.fed)}
            for number, attempts in scenario.attempts.items():
                assert [each["attempts"] for each in outcomes[number]] == [attempts], f"attempts at message {number}"
        letters = self.letters()
        assert (letters if scenario.times == "once" else sorted({*letters})) == sorted(scenario.letters)
        assert scenario.state is None or running.state("count") == scenario.state
        scenario.check(self)

    def missing(self) -> Any:
        """Messages, results or components that are not done; empty at the end."""
        scenario, running = self.scenario, self.running
        if scenario.guarantee != "at_most_once" and (open_ := {*range(self.fed)} - self.outcomes().keys()):
            return open_
        if scenario.times != "at most once" and (left := scenario.expected - self.results()):
            return left
        if scenario.state is not None and (state := running.state("count")) != scenario.state:
            return [state]
        return [head.name for head in self.topology.manifest.heads if running.lag(head.name)]


class Messages(KafkaSpout):
    """Emits messages with their numbers, and notes what they become."""

    def __init__(self, scene: Scene, **options: Any) -> None:
        def translate(record: Record) -> Any:
            text = (record.value() or b"").decode()
            return None if text == "skip" else (record.offset(), text)

        super().__init__(scene.source, streams=[LINES], translate=translate, **options)
        self.scene = scene

    def ack(self, message_id: Any) -> None:
        self.scene.note_ack(message_id)

    def fail(self, message_id: Any, failure: Failure) -> None:
        self.scene.failed.append((message_id, failure))


# What happens.


def feed(scene: Scene) -> None:
    """Writes the messages that are left."""
    feed_some(len(scene.scenario.texts))(scene)


def feed_some(number: int) -> Do:
    def do(scene: Scene) -> None:
        for text in scene.scenario.texts[scene.fed : scene.fed + number]:
            scene.running.append(scene.source, 0, text.encode(), [])
            scene.fed += 1

    return do


def dies(component: str, step: Any, after: int = 0) -> Do:
    return lambda scene: scene.running.kill_at(component, step, after)


def killed(component: str) -> Do:
    return lambda scene: scene.running.kill(component)


def restarted(component: str) -> Do:
    return lambda scene: scene.running.restart(component)


def paused(component: str) -> Do:
    return lambda scene: scene.running.pause(component)


def resumed(component: str) -> Do:
    return lambda scene: scene.running.resume(component)


def requested(state: Any) -> Do:
    """Requests a state, and waits until the spout, which looks four times a second, knows it."""

    def do(scene: Scene) -> None:
        scene.running.request(state)
        known = until(f"the spout is {state}", lambda scene: scene.running.stats("messages").control == (state,))
        known(scene)

    return do


def until(what: str, condition: Callable[[Scene], object]) -> Do:
    return lambda scene: scene.running.eventually(lambda: condition(scene), what)


def until_executed(bolt: str, inputs: int) -> Do:
    return until(f"{bolt} has executed {inputs}", lambda scene: scene.executed[bolt].total() >= inputs)


def until_ended(messages: int) -> Do:
    return until(f"{messages} messages have ended", lambda scene: len(scene.outcomes()) >= messages)


def until_failed(messages: int) -> Do:
    return until(f"{messages} messages have failed", lambda scene: len(scene.failed) >= messages)


def split_of(scene: Scene, name: str) -> Callable[[Sequence[Any], TaskContext], Emits]:
    """The function of a bolt that emits the words of a text, or a word as it is."""

    def emits(values: Sequence[Any], _context: TaskContext) -> Emits:
        number, text = values
        scene.executes(name, text)
        for word in text.split():
            yield (number, word), "default"
        scene.has_executed(name, number, text)

    return emits

"""Topologies that tests run, also in processes of their own.

They are functions: the environment has the name of the topology, and of the topics that its spout reads.
"""

import itertools
import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from examples import clicks as example
from spout_sdk import (
    BasicBolt,
    BasicCollector,
    Bolt,
    FailTupleError,
    Failure,
    KafkaSpout,
    OutputCollector,
    RetryPolicy,
    Spout,
    SpoutCollector,
    TaskContext,
    Topology,
    TopologyBuilder,
    Tuple,
    declare,
)
from spout_sdk.state import StatefulBolt
from tests.chaos.components import DIRECTORY, NAME
from tests.waiting import eventually
from tuple_tree.manifest import Guarantee

SOURCE: Final = "TEST_SOURCE"
HOLD: Final = "TEST_HOLD"
LINES: Final = 60
STUCK: Final = "7"
WORDS: Final = ("alpha", "beta", "gamma", "delta")
QUICKLY: Final = RetryPolicy(delay_period=0.05, max_delay=0.5, max_retries=3)


def outcomes_of(name: str) -> str:
    return f"{name}-outcomes"


def minutes_of(name: str) -> str:
    """The results of `clicks`."""
    return f"{name}-minutes"


class Lines(Spout):
    """Emits a fixed number of lines, and failed lines again."""

    streams = (declare({"number": int, "attempt": int, "line": str}),)

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        self.context = context
        self.collector = collector
        self.numbers: Iterator[int] = iter(range(context.task, LINES, context.tasks))
        self.again: deque[int] = deque()

    def next_tuple(self) -> None:
        attempt = 1 if self.again else 0
        number = self.again.popleft() if self.again else next(self.numbers, None)
        if number is not None:
            line = " ".join(WORDS[: 1 + number % len(WORDS)]) + f" {number}"
            self.collector.emit((number, attempt, line), message_id=number)

    def ack(self, message_id: Any) -> None:
        self.context.count("acked")

    def fail(self, message_id: Any, failure: Failure) -> None:
        self.context.count(f"failed because {failure.message}")
        self.again.append(message_id)


class Endless(Lines):
    """Emits lines without end, slowly, so that the test has the processor."""

    PER_SECOND = 500.0

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        super().open(context, collector)
        self.numbers = itertools.count(context.task, context.tasks)
        self.began = time.monotonic()
        self.turns = 0

    def next_tuple(self) -> None:
        if self.turns < (time.monotonic() - self.began) * self.PER_SECOND:
            self.turns += 1
            super().next_tuple()


class Split(BasicBolt):
    """Fails the first attempt at every tenth line; blocks at the first line while a file exists."""

    streams = (declare({"word": str}),)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        hold = os.environ.get(HOLD)
        while tuple_["number"] == 0 and hold and Path(hold).exists():
            threading.Event().wait(0.05)
        if tuple_["number"] % 10 == 0 and tuple_["attempt"] == 0:
            raise FailTupleError("not yet")
        for word in tuple_["line"].split():
            collector.emit((word,))


class Count(BasicBolt):
    def prepare(self, context: TaskContext) -> None:
        self.context = context

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        self.context.count(tuple_.values[0])


class Forgetful(Bolt):
    """Never acks one word, which is in one line alone."""

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self.collector = collector

    def execute(self, tuple_: Tuple) -> None:
        if tuple_.values[0] != STUCK:
            self.collector.ack(tuple_)


def _words(lines: type[Lines] = Lines, count: type[Any] = Count, tasks: int = 2, **settings: Any) -> Topology:
    builder = TopologyBuilder(os.environ[NAME], ack_partitions=3, **settings)
    builder.set_spout("lines", lines, tasks=tasks)
    builder.set_bolt("split", Split, tasks=tasks).shuffle_grouping("lines")
    builder.set_bolt("count", count, tasks=tasks).fields_grouping("split", "word")
    return builder.build()


def words() -> Topology:
    return _words(message_timeout=600)


def words_of_one_task() -> Topology:
    return _words(tasks=1)


def endless() -> Topology:
    return _words(Endless, max_spout_pending=50)


def forgetful() -> Topology:
    return _words(count=Forgetful, message_timeout=600)


def exactly_once() -> Topology:
    return _words(guarantee="exactly_once")


class See(Count):
    """Counts values; fails the first delivery of those with `once`, and all of those with `never`."""

    def prepare(self, context: TaskContext) -> None:
        super().prepare(context)
        self.failed: set[str] = set()

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        super().execute(tuple_, collector)
        value = tuple_["value"]
        if "never" in value:
            raise FailTupleError("it never works")
        if "once" in value and value not in self.failed:
            self.failed.add(value)
            raise FailTupleError("not yet")


class Forget(Bolt):
    """Acks nothing."""

    def execute(self, tuple_: Tuple) -> None: ...


class CopyTwice(BasicBolt):
    streams = (declare({"value": str}),)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        for copy in "ab":
            collector.emit((f"{tuple_['value']} {copy} {tuple_.traceparent}",))


def _reading(spout: str = "lines", tasks: int = 1, **settings: Any) -> TopologyBuilder:
    """With a spout that reads the source."""
    outcomes = settings.pop("outcomes", None)
    given = {"ack_partitions": 2, "message_timeout": 120.0, "tick": 0.5, **settings}
    builder = TopologyBuilder(os.environ[NAME], **given)
    source = KafkaSpout(os.environ[SOURCE].split(","), retry=QUICKLY, outcomes=outcomes)
    builder.set_spout(spout, source, tasks=tasks)
    return builder


def _seen(builder: TopologyBuilder, see: type[Any] = See, tasks: int = 2) -> Topology:
    builder.set_bolt("see", see, tasks=tasks).shuffle_grouping("lines")
    return builder.build()


def one_task() -> Topology:
    return _seen(_reading())


def two_tasks() -> Topology:
    return _seen(_reading(tasks=2, max_spout_pending=100))


def soon_timed_out() -> Topology:
    return _seen(_reading(message_timeout=2.0))


def never_acked() -> Topology:
    return _seen(_reading(), Forget, 1)


def three_steps() -> Topology:
    """Lines, two copies of each, and a count."""
    builder = _reading()
    builder.set_bolt("copy", CopyTwice).shuffle_grouping("lines")
    builder.set_bolt("see", See).shuffle_grouping("copy")
    return builder.build()


class SplitTwice(BasicBolt):
    """Emits the words of a value; fails one of five after its first word, once for each task."""

    streams = (declare({"word": str}),)

    def prepare(self, context: TaskContext) -> None:
        self.failed: set[str] = set()

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        value = tuple_["value"]
        for word in value.split():
            collector.emit((word,))
            if value.startswith("5") and value not in self.failed:
                self.failed.add(value)
                raise FailTupleError("not yet")


class Counted(StatefulBolt):
    state = int
    streams = (declare({"word": str, "count": int}),)

    def update(self, count: int, tuple_: Tuple) -> int:
        return count + 1

    def emit(self, key: str, count: int, tuple_: Tuple, collector: BasicCollector) -> None:
        collector.emit((key, count))


def counts() -> Topology:
    """Words that are counted in a state."""
    builder = _reading()
    builder.set_bolt("split", SplitTwice, tasks=2).shuffle_grouping("lines")
    builder.set_bolt("count", Counted, tasks=2).fields_grouping("split", "word")
    return builder.build()


class Upper(BasicBolt):
    """Answers with the message in upper case, and its own process.

    `held` is answered, and then held until a file exists, in a directory where each process leaves a file before it.
    `bad` fails.
    """

    answers = True

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        text = tuple_["value"]
        if text == "bad":
            raise FailTupleError("it is bad")
        collector.answer([text.upper(), os.getpid()])
        if text == "held":
            directory = Path(os.environ[DIRECTORY])
            (directory / f"held-{os.getpid()}").touch()
            eventually((directory / "release-held").exists, "the release")


def _answered(guarantee: Guarantee) -> Topology:
    builder = _reading("orders", guarantee=guarantee, ack_partitions=3, outcomes=outcomes_of(os.environ[NAME]))
    builder.set_bolt("upper", Upper).shuffle_grouping("orders")
    return builder.build()


def answered() -> Topology:
    return _answered("at_least_once")


def answered_once() -> Topology:
    return _answered("exactly_once")


def clicks(guarantee: Guarantee = "at_least_once") -> Topology:
    """The topology of an example, under the name of the test."""
    name = os.environ[NAME]
    return example.build(name, os.environ[SOURCE], minutes_of(name), guarantee=guarantee)


def clicks_exactly_once() -> Topology:
    return clicks("exactly_once")

"""Topologies that the tests of the SDK run in processes of their own.

They are functions, so that each test gives the topology a name of its own, through the environment.
"""

import itertools
import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spout_sdk import (
    BasicBolt,
    BasicCollector,
    Bolt,
    FailTupleError,
    Failure,
    OutputCollector,
    Spout,
    SpoutCollector,
    TaskContext,
    Topology,
    TopologyBuilder,
    Tuple,
    Window,
    WindowedBolt,
    declare,
    tumbling,
)

NAME = "SDK_TEST_TOPOLOGY"
RELEASE = "SDK_TEST_RELEASE"
HOLD = "SDK_TEST_HOLD"
LINES = 60
LINES_A_WINDOW = 50
STUCK = "7"
WORDS = ("alpha", "beta", "gamma", "delta")


def line(number: int) -> str:
    return " ".join(WORDS[: 1 + number % len(WORDS)]) + f" {number}"


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
            self.collector.emit((number, attempt, line(number)), message_id=number)

    def ack(self, message_id: Any) -> None:
        self.context.count("acked")

    def fail(self, message_id: Any, reason: Failure) -> None:
        self.context.count(f"failed because {reason.message}")
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


class Count(Bolt):
    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self.context = context
        self.collector = collector

    def execute(self, tuple_: Tuple) -> None:
        self.context.count(tuple_["word"])
        self.collector.ack(tuple_)


class Forgetful(Count):
    """Never acks one word, which is in one line alone."""

    def execute(self, tuple_: Tuple) -> None:
        if tuple_["word"] != STUCK:
            super().execute(tuple_)


class Hold(Bolt):
    """Holds every line until a file appears; then acks all."""

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self.collector = collector
        self.held: list[Tuple] = []
        self.release = Path(os.environ[RELEASE])

    def execute(self, tuple_: Tuple) -> None:
        self.held.append(tuple_)
        if self.release.exists():
            for held in self.held:
                self.collector.ack(held)
            self.held.clear()


class Batch(WindowedBolt):
    """Emits the numbers of the lines of a window as one tuple."""

    window = tumbling(count=LINES_A_WINDOW)
    streams = (declare({"numbers": str}),)

    def execute_window(self, window: Window) -> None:
        self.collector.emit((" ".join(str(tuple_["number"]) for tuple_ in window.tuples),))


class Keep(BasicBolt):
    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        """The test reads the tuple from the inbox."""


def _builder(**settings: Any) -> TopologyBuilder:
    return TopologyBuilder(os.environ[NAME], ack_partitions=3, **settings)


def _words(lines: type[Lines] = Lines, count: type[Count] = Count, **settings: Any) -> Topology:
    builder = _builder(**settings)
    builder.set_spout("lines", lines, tasks=2)
    builder.set_bolt("split", Split, tasks=2).shuffle_grouping("lines")
    builder.set_bolt("count", count, tasks=2).fields_grouping("split", "word")
    return builder.build()


def words() -> Topology:
    return _words(message_timeout=600)


def endless() -> Topology:
    return _words(Endless, max_spout_pending=50)


def forgetful() -> Topology:
    return _words(count=Forgetful, message_timeout=600)


def exactly_once() -> Topology:
    return _words(guarantee="exactly_once")


def holding() -> Topology:
    builder = _builder()
    builder.set_spout("lines", Lines)
    builder.set_bolt("hold", Hold).global_grouping("lines")
    return builder.build()


def batches() -> Topology:
    builder = _builder(message_timeout=600, pack_tuples=1)
    builder.set_spout("lines", Lines)
    builder.set_bolt("batch", Batch).global_grouping("lines")
    builder.set_bolt("keep", Keep).shuffle_grouping("batch")
    return builder.build()

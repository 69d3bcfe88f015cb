"""Topologies of which one tree never completes; for `acker trace`."""

import os
from collections import deque

from spout_sdk import (
    BasicBolt,
    BasicCollector,
    Spout,
    SpoutCollector,
    TaskContext,
    Topology,
    TopologyBuilder,
    Tuple,
    declare,
)
from tests.kafka.sdk_topologies import NAME, Count

STUCK = "gamma"
LINES = ("alpha beta", f"beta {STUCK} alpha delta", "delta", "alpha delta beta")


class Lines(Spout):
    """Emits each line once."""

    streams = (declare({"line": str}),)

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        self.collector = collector
        self.lines = deque(enumerate(LINES))

    def next_tuple(self) -> None:
        if self.lines:
            number, line = self.lines.popleft()
            self.collector.emit((line,), message_id=number)


class Split(BasicBolt):
    streams = (declare({"word": str}),)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        for word in tuple_["line"].split():
            collector.emit((word,))


class Forgetful(Count):
    """Forgets to ack one particular word."""

    def execute(self, tuple_: Tuple) -> None:
        if tuple_["word"] != STUCK:
            super().execute(tuple_)


def _forgetful(message_timeout: float) -> Topology:
    builder = TopologyBuilder(os.environ[NAME], ack_partitions=2, message_timeout=message_timeout)
    builder.set_spout("lines", Lines)
    builder.set_bolt("split", Split).shuffle_grouping("lines")
    builder.set_bolt("count", Forgetful, tasks=2).fields_grouping("split", "word")
    return builder.build()


def forgetful() -> Topology:
    return _forgetful(600)


def impatient() -> Topology:
    return _forgetful(2)

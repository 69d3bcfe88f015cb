"""Two small topologies: of one a tree never completes, and the other works in transactions."""

import os
from collections import deque
from typing import Any

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


def _topology(count: type[Count], **settings: Any) -> Topology:
    builder = TopologyBuilder(os.environ[NAME], ack_partitions=2, **settings)
    builder.set_spout("lines", Lines)
    builder.set_bolt("split", Split).shuffle_grouping("lines")
    builder.set_bolt("count", count, tasks=2).fields_grouping("split", "word")
    return builder.build()


def forgetful() -> Topology:
    return _topology(Forgetful, message_timeout=600)


def exactly_once() -> Topology:
    return _topology(Count, guarantee="exactly_once")

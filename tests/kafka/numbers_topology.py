"""A spout of 300 numbers, and a bolt that fails some of them once, for tests of commands."""

import os
import threading
from collections import deque
from pathlib import Path
from typing import Any

from spout_sdk import (
    BasicBolt,
    BasicCollector,
    FailTupleError,
    Failure,
    Spout,
    SpoutCollector,
    TaskContext,
    Topology,
    TopologyBuilder,
    Tuple,
    declare,
)
from tests.kafka.sdk_topologies import NAME

HOLD = "NUMBERS_TEST_HOLD"
"""Names a file; the bolt stands still at number 0 for as long as it exists."""
NUMBERS = 300


class Numbers(Spout):
    streams = (declare({"number": int, "attempt": int}),)

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        self.context, self.collector = context, collector
        self.todo = deque((number, 0) for number in range(NUMBERS))

    def next_tuple(self) -> None:
        if self.todo:
            number, attempt = self.todo.popleft()
            self.collector.emit((number, attempt), message_id=number)

    def fail(self, message_id: Any, reason: Failure) -> None:
        self.context.count("replayed")
        self.todo.append((message_id, 1))


class Sink(BasicBolt):
    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        hold = os.environ.get(HOLD)
        while tuple_["number"] == 0 and hold and Path(hold).exists():
            threading.Event().wait(0.05)
        if tuple_["number"] % 50 == 7 and not tuple_["attempt"]:
            raise FailTupleError("not at the first attempt")


def topology(tasks: int = 1) -> Topology:
    builder = TopologyBuilder(os.environ[NAME], ack_partitions=2, message_timeout=600)
    builder.set_spout("numbers", Numbers)
    builder.set_bolt("sink", Sink, tasks=tasks).shuffle_grouping("numbers")
    return builder.build()


def wide() -> Topology:
    return topology(tasks=10)

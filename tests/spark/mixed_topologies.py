"""Topologies of SDK and Spark components that tests run whole; imported by processes, without PySpark.

They are functions, so that each test gives the topology a name of its own, through the environment.
"""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.words import COUNTED, LINE, MAX_PENDING, NAME, SOURCE, WORD, Count, Split, explode, line
from spout_sdk import Failure, Spout, SpoutCollector, TaskContext, Topology, TopologyBuilder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ALLOWED: Final = "WORDS_ALLOWED"
"""Environment variable: a file that says how many messages the SDK spout may emit, replays apart; none without it."""

TIMEOUT: Final = "WORDS_TIMEOUT"
"""Environment variable: seconds without progress after which a tree is given up."""

BEGUN: Final = "begun"
COMPLETE: Final = "complete"
"""Counters of the SDK spout: messages that it emitted for the first time, and that were acked."""


class Lines(Spout):
    """Emits lines, and again those that fail."""

    streams = (LINE,)

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        self.context = context
        self.collector = collector
        self.again: deque[int] = deque()
        self.begun = 0
        self.allowed = Path(os.environ[ALLOWED])

    def next_tuple(self) -> None:
        if self.again:
            message = self.again.popleft()
        elif self.begun < self.most():
            message = self.begun
            self.begun += 1
            self.context.count(BEGUN)
        else:
            return
        self.collector.emit((message, line(message)), message_id=message)

    def most(self) -> int:
        return int(self.allowed.read_text()) if self.allowed.exists() else 0

    def ack(self, _message_id: Any) -> None:
        self.context.count(COMPLETE)

    def fail(self, message_id: Any, _reason: Failure) -> None:
        self.again.append(message_id)


def tally(rows: DataFrame) -> DataFrame:
    """Runs in Spark: writes down what it received; nobody receives anything from it."""
    rows.select("message", "position", "word").write.mode("append").json(os.environ[COUNTED])
    return rows.select("_tracking")


def spark_in_the_middle() -> Topology:
    """lines → split (in Spark) → count."""
    builder = _builder()
    builder.set_spout("lines", Lines)
    split = builder.set_bolt("split", explode, tasks=2, external=True, streams=[WORD])
    split.shuffle_grouping("lines")
    builder.set_bolt("count", Count, tasks=2).fields_grouping("split", "word")
    return builder.build()


def sdk_in_the_middle() -> Topology:
    """lines (in Spark) → split → tally (in Spark)."""
    builder = _builder()
    builder.set_spout("lines", f"{os.environ[NAME]}.{SOURCE}", external=True, streams=[LINE])
    builder.set_bolt("split", Split, tasks=2).shuffle_grouping("lines")
    builder.set_bolt("tally", tally, tasks=2, external=True).fields_grouping("split", "word")
    return builder.build()


def _builder() -> TopologyBuilder:
    return TopologyBuilder(
        os.environ[NAME],
        ack_partitions=3,
        tick=0.5,
        message_timeout=float(os.environ[TIMEOUT]),
        # Trees that make no progress time out; how old they are is not what the tests are about.
        max_tree_age=600,
        max_spout_pending=int(os.environ[MAX_PENDING]),
    )

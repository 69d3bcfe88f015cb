"""Counts words: an SDK spout, a Spark bolt that splits lines, an SDK bolt that counts.

On a cluster, each in a terminal of its own:

    acker topics create examples.spark_word_count:topology
    acker worker --topology spark-word-count
    acker spark submit examples.spark_word_count:topology --component split
    acker run examples.spark_word_count:topology --component count
    acker run examples.spark_word_count:topology --component lines
"""

from __future__ import annotations

import itertools
from collections import Counter, deque
from typing import TYPE_CHECKING, Any

from spout_sdk import (
    BasicBolt,
    BasicCollector,
    Failure,
    Spout,
    SpoutCollector,
    TaskContext,
    Topology,
    TopologyBuilder,
    Tuple,
    declare,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TEXT = ("the quick brown fox", "jumps over the lazy dog", "and the dog does not mind")
LINES = 10_000


class Lines(Spout):
    """Emits lines, and failed ones again."""

    streams = (declare({"line": str}),)

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        self.context = context
        self.collector = collector
        self.fresh = iter(range(LINES))
        self.again: deque[int] = deque()

    def next_tuple(self) -> None:
        number = self.again.popleft() if self.again else next(self.fresh, None)
        if number is not None:
            self.collector.emit((TEXT[number % len(TEXT)],), message_id=number)

    def ack(self, _message_id: Any) -> None:
        self.context.count("acked")

    def fail(self, message_id: Any, _failure: Failure) -> None:
        self.again.append(message_id)


def split(rows: DataFrame) -> DataFrame:
    """Runs in Spark: a row for each word of a line, anchored to the line by the column that it keeps."""
    from pyspark.sql import functions as F  # noqa: N812

    return rows.select(F.explode(F.split("line", " ")).alias("word"), "_tracking")


class Count(BasicBolt):
    """Counts the words of its task."""

    def prepare(self, context: TaskContext) -> None:
        self.counts: Counter[str] = Counter()
        self.context = context

    def execute(self, tuple_: Tuple, _collector: BasicCollector) -> None:
        self.counts[tuple_["word"]] += 1
        self.context.count(tuple_["word"])


def topology() -> Topology:
    """lines → split (in Spark) → count."""
    builder = TopologyBuilder("spark-word-count", message_timeout=60)
    builder.set_spout("lines", Lines)
    bolt = builder.set_bolt("split", split, tasks=2, external=True, streams=[declare({"word": str})])
    bolt.shuffle_grouping("lines")
    builder.set_bolt("count", Count, tasks=2).fields_grouping("split", "word")
    return builder.build()


WORDS = Counter(word for line in itertools.islice(itertools.cycle(TEXT), LINES) for word in line.split())
"""The result if no line had to be replayed."""

"""Topologies with components in Spark; imported by drivers and by the SDK, without PySpark."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from spout_sdk import BasicBolt, BasicCollector, Spout, TaskContext, Topology, TopologyBuilder, Tuple, declare

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_jobs import Source

NAME = "SPARK_TEST_TOPOLOGY"
LINE = (declare({"line": str}, codec="avro"),)
WORD = (declare({"word": str}, codec="avro"),)


class Other(Spout):
    streams = LINE

    def next_tuple(self) -> None:
        """Emits nothing."""


class Count(BasicBolt):
    """Counts words."""

    def prepare(self, context: TaskContext) -> None:
        self.context = context

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        self.context.count(tuple_["word"])


def upper_case_source(_spark: SparkSession) -> Source:
    from pyspark.sql import functions as F  # noqa: N812

    from spark_jobs import Source

    return Source(source_topic(), fields={"line": F.upper(F.col("value").cast("string"))}, retry_limit=1)


def two_arguments(_spark: SparkSession, _name: str) -> Any:
    return "lines"


def split(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    return rows.select(F.explode(F.split("line", " ")).alias("word"), "_tracking")


def words(outcomes: str | None = None) -> Topology:
    """lines (in Spark), which may write outcomes → split (in Spark) → count."""
    timeout = int(os.environ.get("SPARK_TEST_TIMEOUT", "120"))
    builder = TopologyBuilder(
        os.environ[NAME],
        ack_partitions=2,
        tick=0.2,
        message_timeout=timeout,
        max_tree_age=3 * timeout,
        max_spout_pending=600,
    )
    builder.set_spout("lines", source_topic(), external=True, streams=LINE, outcomes=outcomes)
    builder.set_bolt("split", split, external=True, streams=WORD).shuffle_grouping("lines")
    builder.set_bolt("count", Count).fields_grouping("split", "word")
    return builder.build()


def outcomes_topic() -> str:
    return f"{os.environ[NAME]}-outcomes"


def source_topic() -> str:
    return f"{os.environ[NAME]}-source"


def topology() -> Topology:
    """Several spouts → count."""
    builder = TopologyBuilder(
        os.environ[NAME], ack_partitions=3, tick=0.2, message_timeout=600, max_tree_age=1200, max_spout_pending=2_000
    )
    functions: dict[str, Any] = {each.__name__: each for each in (upper_case_source, two_arguments)}
    for name, source in {"lines": source_topic(), **functions}.items():
        builder.set_spout(name, source, external=True, streams=LINE)
    builder.set_spout("other", Other)
    builder.set_bolt("count", Count, tasks=2).shuffle_grouping("lines").shuffle_grouping("upper_case_source")
    return builder.build()

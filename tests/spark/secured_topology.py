"""A topology of two Spark components and one of the SDK; imported by drivers, without PySpark."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from spout_sdk import BasicBolt, BasicCollector, Topology, TopologyBuilder, Tuple, declare

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME = "SPARK_SECURED_TOPOLOGY"


class Count(BasicBolt):
    """Acks what it receives."""

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        """Nothing else: how many there were is counted for it."""


def split(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    return rows.select(F.explode(F.split("line", " ")).alias("word"), "_tracking")


def source_topic() -> str:
    return f"{os.environ[NAME]}-source"


def topology() -> Topology:
    """lines (in Spark) → split (in Spark) → count."""
    builder = TopologyBuilder(os.environ[NAME], ack_partitions=2, tick=0.5, message_timeout=120, max_tree_age=600)
    builder.set_spout("lines", source_topic(), external=True, streams=[declare({"line": str})])
    builder.set_bolt("split", split, external=True, streams=[declare({"word": str})]).shuffle_grouping("lines")
    builder.set_bolt("count", Count).fields_grouping("split", "word")
    return builder.build()

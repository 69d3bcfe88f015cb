"""The topologies under random faults, with each guarantee, and one in Spark; the environment has the name of all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from spout_sdk import BasicCollector, Topology, TopologyBuilder, Tuple, declare
from tests.chaos.arena import PARTS
from tests.chaos.components import (
    NAME,
    SOURCE_PARTITIONS,
    Number,
    Numbers,
    Part,
    Publish,
    Sink,
    Source,
    numbered,
    outcomes_of,
    source_of,
    split,
)
from tests.chaos.stateful import SplitKeys, Totals
from tests.chaos.troubled import AsyncSplit, Fetch, Gather, RaisingHook, wait_rarely
from tuple_tree.manifest import Guarantee

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_jobs import Source as SparkSource


def _name(kind: str) -> str:
    return f"{os.environ[NAME]}-{kind}"


def _builder(kind: str, guarantee: Guarantee, tasks: int = 1) -> TopologyBuilder:
    """With a spout that reads the source."""
    name = _name(kind)
    builder = TopologyBuilder(name, guarantee=guarantee, ack_partitions=2)
    outcomes = None if guarantee == "at_most_once" else outcomes_of(name)
    source = Source(source_of(name), translate=numbered, streams=Numbers.streams, outcomes=outcomes)
    builder.set_spout("numbers", source, tasks=tasks)
    return builder


def _two_bolts(builder: TopologyBuilder, split: Any, sink: Any) -> Topology:
    builder.set_bolt("split", split, tasks=2).shuffle_grouping("numbers")
    builder.set_bolt("sink", sink, tasks=2).fields_grouping("split", "number")
    return builder.build()


def own_spout() -> Topology:
    builder = TopologyBuilder(_name("own"), ack_partitions=2)
    builder.set_spout("numbers", Numbers)
    builder.add_hook(RaisingHook)
    return _two_bolts(builder, AsyncSplit, Sink)


def kafka_spout() -> Topology:
    return _two_bolts(_builder("kafka", "at_least_once"), split, partial(Publish, _name("kafka")))


def exactly_once() -> Topology:
    return _two_bolts(_builder("exactly", "exactly_once"), split, partial(Publish, _name("exactly")))


def slow_split(row: Number) -> Iterator[Part]:
    yield from split(row)
    wait_rarely()


class SlowSink(Sink):
    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        super().execute(tuple_, collector)
        wait_rarely()


def at_most_once() -> Topology:
    return _two_bolts(_builder("most", "at_most_once"), slow_split, SlowSink)


def _chained(kind: str, guarantee: Guarantee) -> Topology:
    """A chain in the tasks of the spout, in which a tuple may wait for seconds."""
    builder = _builder(kind, guarantee, SOURCE_PARTITIONS)
    builder.set_bolt("split", AsyncSplit).local_grouping("numbers")
    builder.set_bolt("sink", partial(Publish, _name(kind))).local_grouping("split")
    return builder.build()


def chained() -> Topology:
    return _chained("chained", "at_least_once")


def chained_exactly_once() -> Topology:
    return _chained("chained-exactly", "exactly_once")


def _state(kind: str, guarantee: Guarantee) -> Topology:
    builder = _builder(kind, guarantee)
    builder.set_bolt("split", SplitKeys, tasks=2).shuffle_grouping("numbers")
    builder.set_bolt("totals", Totals, tasks=2).fields_grouping("split", "key")
    builder.set_bolt("sink", Sink, tasks=2).fields_grouping("totals", "key")
    return builder.build()


def state() -> Topology:
    return _state("state", "at_least_once")


def state_exactly_once() -> Topology:
    return _state("state-exactly", "exactly_once")


def holds() -> Topology:
    """Bolts that work on inputs for seconds, and hold them, within transactions."""
    builder = _builder("holds", "exactly_once")
    builder.add_hook(partial(RaisingHook, ("fetch", "split", "gather")))
    builder.set_bolt("fetch", Fetch, tasks=2).shuffle_grouping("numbers")
    builder.set_bolt("split", split, tasks=2).shuffle_grouping("fetch")
    builder.set_bolt("gather", Gather, tasks=2).shuffle_grouping("split")
    builder.set_bolt("sink", Sink, tasks=2).fields_grouping("gather", "number")
    return builder.build()


def numbers_in_spark(topology: str, _spark: SparkSession) -> SparkSource:
    from pyspark.sql import functions as F  # noqa: N812

    from spark_jobs import Source as SparkSource

    number = F.col("offset") * SOURCE_PARTITIONS + F.col("partition")
    return SparkSource(source_of(topology), fields={"number": number}, retry_limit=60)


def split_in_spark(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    parts = F.explode(F.array(*(F.lit(part).cast("long") for part in range(PARTS))))
    return rows.select("number", parts.alias("part"), "_tracking")


def spark() -> Topology:
    """A spout and a bolt in Spark; one tuple a record."""
    name = _name("spark")
    builder = TopologyBuilder(name, ack_partitions=2)
    numbers, parts = declare({"number": int}, codec="avro"), declare({"number": int, "part": int}, codec="avro")
    source = partial(numbers_in_spark, name)
    builder.set_spout("numbers", source, external=True, streams=[numbers], outcomes=outcomes_of(name))
    split = builder.set_bolt("split", split_in_spark, tasks=2, external=True, streams=[parts])
    split.shuffle_grouping("numbers")
    builder.set_bolt("sink", Sink, tasks=2).fields_grouping("split", "number")
    return builder.build()

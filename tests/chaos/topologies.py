"""The topologies under faults: a custom spout and Kafka spouts, with each guarantee, and a bolt in Spark."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import deque
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from spout_sdk import (
    BasicBolt,
    BasicCollector,
    Failure,
    KafkaBolt,
    KafkaSpout,
    Record,
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
from tests.chaos.arena import PARTS, Arena
from tests.chaos.troubled import AsyncSplit, Fetch, Gather, RaisingHook, WriteSeveral, wait_rarely
from tuple_tree.manifest import Guarantee

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_jobs import Source as SparkSource

NAME: Final = "CHAOS_NAME"
DIRECTORY: Final = "CHAOS_DIRECTORY"
SOURCE_PARTITIONS: Final = 2
RATE: Final = 100
"""Messages a second of each topology."""
_OFFSET_MASK: Final = 2**40 - 1


def directory() -> Path:
    return Path(os.environ[DIRECTORY])


def is_over() -> bool:
    """Whether no more messages are to be made."""
    return (directory() / "over").exists()


def arena_of(topology: str) -> Arena:
    return Arena(directory() / f"{topology}.arena")


def source_of(topology: str) -> str:
    return f"{topology}.source"


def results_of(topology: str) -> str:
    """The topic that a `Publish` or a `WriteSeveral` writes."""
    return f"{topology}.results"


def outcomes_of(topology: str) -> str:
    """The topic of the outcomes of a spout."""
    return f"{topology}.outcomes"


def records_of(partition: int, messages: int) -> int:
    """How many of the first messages are in a partition of the source."""
    return len(range(partition, messages, SOURCE_PARTITIONS))


def number_of(partition: int, offset: int) -> int:
    """The messages of a source are numbered as they lie in its partitions by turns."""
    return offset * SOURCE_PARTITIONS + partition


class Numbers(Spout):
    """Emits rising numbers, failed ones again, and after a restart those without an ack."""

    streams = (declare({"number": int}),)

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        self.arena, self.collector = arena_of(context.topology), collector
        self.pause = threading.Event()
        self.number = self.arena.emitted
        self.again = deque(number for number in range(self.number) if not self.arena.acked_at[number])

    def next_tuple(self) -> None:
        if self.again:
            number = self.again.popleft()
        elif is_over():
            return
        else:
            number, self.number = self.number, self.number + 1
            self.pause.wait(1 / RATE)
        self.arena.emit(number, time.time())
        self.collector.emit((number,), message_id=number)

    def ack(self, message_id: Any) -> None:
        self.arena.ack(message_id, time.time())

    def fail(self, message_id: Any, _reason: Failure) -> None:
        self.again.append(message_id)


class Source(KafkaSpout):
    """A Kafka spout that records its acks and fails."""

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        self.arena = arena_of(context.topology)
        super().open(context, collector)

    def ack(self, message_id: Any) -> None:
        super().ack(message_id)
        self.arena.ack(self._number(message_id), time.time())

    def fail(self, message_id: Any, reason: Failure) -> None:
        self.arena.fail(self._number(message_id))
        super().fail(message_id, reason)

    @staticmethod
    def _number(message_id: int) -> int:
        return number_of(message_id >> 40, message_id & _OFFSET_MASK)


def numbered(record: Record) -> tuple[int]:
    return (number_of(record.partition() or 0, record.offset() or 0),)


class Split(BasicBolt):
    streams = (declare({"number": int, "part": int}),)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        for part in range(PARTS):
            collector.emit((tuple_["number"], part))


class Sink(BasicBolt):
    def prepare(self, context: TaskContext) -> None:
        self.arena = arena_of(context.topology)

    def execute(self, tuple_: Tuple, _collector: BasicCollector) -> None:
        self.arena.effect(tuple_["number"], tuple_["part"])


class SlowSplit(Split):
    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        super().execute(tuple_, collector)
        wait_rarely()


class SlowSink(Sink):
    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        super().execute(tuple_, collector)
        wait_rarely()


class Publish(KafkaBolt):
    """Also writes each part to a topic."""

    def __init__(self, topology: str) -> None:
        super().__init__(results_of(topology), value=self.effect)
        self._topology = topology

    @cached_property
    def arena(self) -> Arena:
        return arena_of(self._topology)

    def effect(self, tuple_: Tuple) -> str:
        number, part = tuple_["number"], tuple_["part"]
        self.arena.effect(number, part)
        return json.dumps({"number": number, "part": part}, separators=(",", ":"))


CLOSING: Final = b"closing"
"""The value of marker messages with the latest time: they close all windows, and do not count as messages."""
CLOSING_MESSAGES: Final = 100
"""Enough that each task has one."""


def timed(record: Record) -> tuple[int, int]:
    (number,) = numbered(record)
    return number, 10**12 if record.value() == CLOSING else number * 1000 // RATE


class SplitWindows(WindowedBolt):
    """As `Split`, for the tuples of a second at a time; replayed ones are late."""

    window = (
        tumbling(seconds=1)
        .with_timestamp_field("at")
        .with_lag(1)
        .with_watermark_interval(0.1)
        .with_late_tuple_stream("late")
    )
    streams = (*Split.streams, declare({"number": int}, name="late"))

    def execute_window(self, window: Window) -> None:
        for tuple_ in window.tuples:
            for part in range(PARTS):
                self.collector.emit((tuple_["number"], part), anchors=tuple_)


class LateSink(Sink):
    """A late tuple is all of its parts."""

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        if tuple_.stream == "late":
            for part in range(PARTS):
                self.arena.effect(tuple_["number"], part)
        else:
            super().execute(tuple_, collector)


def numbers_in_spark(topology: str, _spark: SparkSession) -> SparkSource:
    from pyspark.sql import functions as F  # noqa: N812

    from spark_jobs import Source as SparkSource

    number = F.col("offset") * SOURCE_PARTITIONS + F.col("partition")
    return SparkSource(source_of(topology), fields={"number": number}, retry_limit=60)


def split_in_spark(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    parts = F.explode(F.array(*(F.lit(part).cast("long") for part in range(PARTS))))
    return rows.select("number", parts.alias("part"), "_tracking")


def _topology(
    kind: str,
    guarantee: Guarantee = "at_least_once",
    *,
    kafka_spout: bool = False,
    publishes: bool = False,
    is_troubled: bool = False,
) -> Topology:
    name = f"{os.environ[NAME]}-{kind}"
    builder = TopologyBuilder(name, guarantee=guarantee, ack_partitions=2)
    outcomes = None if guarantee == "at_most_once" else outcomes_of(name)
    source: Any = Numbers
    if kafka_spout:
        source = Source(source_of(name), translate=numbered, streams=Numbers.streams, outcomes=outcomes)
    builder.set_spout("numbers", source)
    plain = SlowSplit if guarantee == "at_most_once" else Split
    builder.set_bolt("split", AsyncSplit if is_troubled else plain, tasks=2).shuffle_grouping("numbers")
    sink: Any = SlowSink if guarantee == "at_most_once" else Sink
    if publishes:
        sink = partial(Publish, name)
    if is_troubled:
        builder.add_hook(RaisingHook)
        sink = partial(WriteSeveral, arena_of, results_of(name))
    builder.set_bolt("sink", sink, tasks=2).fields_grouping("split", "number")
    return builder.build()


def own_spout() -> Topology:
    return _topology("own", is_troubled=True)


def kafka_spout() -> Topology:
    return _topology("kafka", kafka_spout=True, publishes=True)


def exactly_once() -> Topology:
    return _topology("exactly", "exactly_once", kafka_spout=True, publishes=True)


def _chained(kind: str, guarantee: Guarantee) -> Topology:
    """A chain in the tasks of the spout, in which a tuple may wait for seconds."""
    name = f"{os.environ[NAME]}-{kind}"
    builder = TopologyBuilder(name, guarantee=guarantee, ack_partitions=2)
    spout = Source(source_of(name), translate=numbered, streams=Numbers.streams, outcomes=outcomes_of(name))
    builder.set_spout("numbers", spout, tasks=SOURCE_PARTITIONS)
    builder.set_bolt("split", AsyncSplit).local_grouping("numbers")
    builder.set_bolt("sink", partial(Publish, name)).local_grouping("split")
    return builder.build()


def chained() -> Topology:
    return _chained("chained", "at_least_once")


def chained_exactly_once() -> Topology:
    return _chained("chained-exactly", "exactly_once")


def windows() -> Topology:
    name = f"{os.environ[NAME]}-windows"
    builder = TopologyBuilder(name, guarantee="exactly_once", ack_partitions=2)
    builder.add_hook(partial(RaisingHook, ("fetch", "split", "gather")))
    builder.set_spout("numbers", Source(source_of(name), translate=timed, streams=Fetch.streams))
    builder.set_bolt("fetch", Fetch, tasks=2).shuffle_grouping("numbers")
    builder.set_bolt("split", SplitWindows, tasks=2).shuffle_grouping("fetch")
    builder.set_bolt("gather", Gather, tasks=2).shuffle_grouping("split")
    sink = builder.set_bolt("sink", LateSink, tasks=2).fields_grouping("gather", "number")
    sink.fields_grouping("split", "number", "late")
    return builder.build()


def at_most_once() -> Topology:
    return _topology("most", "at_most_once", kafka_spout=True)


def spark() -> Topology:
    """A spout and a bolt in Spark; one tuple a record."""
    name = f"{os.environ[NAME]}-spark"
    builder = TopologyBuilder(name, ack_partitions=2)
    numbers, parts = declare({"number": int}, codec="avro"), declare({"number": int, "part": int}, codec="avro")
    source = partial(numbers_in_spark, name)
    builder.set_spout("numbers", source, external=True, streams=[numbers], outcomes=outcomes_of(name))
    split = builder.set_bolt("split", split_in_spark, tasks=2, external=True, streams=[parts])
    split.shuffle_grouping("numbers")
    builder.set_bolt("sink", Sink, tasks=2).fields_grouping("split", "number")
    return builder.build()

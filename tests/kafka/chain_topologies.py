"""Topologies with chains whose processes are killed at chosen steps, for the tests of chains.

A test arms a step as in `guarantee_topologies`. Each message is split into parts, and each part becomes a record in
the topic of results.
"""

import json
import os
import sys
import time
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

from confluent_kafka import KafkaError, TopicPartition

from kafka_clients import producer
from kafka_clients.group_consumer import GroupConsumer
from spout_sdk import (
    BasicBolt,
    BasicCollector,
    Bolt,
    KafkaBolt,
    KafkaSpout,
    OutputCollector,
    Record,
    SpoutCollector,
    TaskContext,
    Topology,
    TopologyBuilder,
    Tuple,
    declare,
)
from spout_sdk.kafka import kafka_reader
from tests.chaos.arena import PARTS, Arena
from tests.kafka.guarantee_topologies import NAME, KilledProducer, directory, kill_point
from tuple_tree.manifest import Guarantee

SOURCE_PARTITIONS: Final = 2
CHAIN_STEPS: Final = ("executing", "emitted", "held", "undelivered", "flushed", "offsets", "committed")
"""The steps at which the process of a chain can be killed: before `split` executes a tuple, after it has emitted its
parts, while `hold` holds tuples, when a result was sent and is not delivered, before a commit, when the offsets are
sent, and when they are committed."""
LEAVING_STEPS: Final = ("executing", "emitted", "relaying", "relayed", "undelivered", "flushed", "committed")
"""The steps with tuples that leave the chain; also before `relay` executes a tuple, and after it has emitted for it."""
_HEADS: Final = ("messages", "relay")


class ChainProducer(KilledProducer):
    """A producer with the steps of a transaction, and a step after `produce` of a result."""

    def produce(self, topic: str, *record: Any) -> None:
        super().produce(topic, *record)
        if topic == results_of(os.environ[NAME]):
            kill_point("undelivered")


class KilledMember(GroupConsumer):
    """A group member with the same steps for commits without transactions."""

    def begin_commit(self, offsets: list[TopicPartition]) -> None:
        kill_point("flushed")
        super().begin_commit(offsets)
        kill_point("offsets")

    def _answered(self, error: KafkaError | None, partitions: Sequence[TopicPartition], *sent: Any) -> None:
        super()._answered(error, partitions, *sent)
        kill_point("committed")


if sys.argv[-1:][0] in _HEADS:
    # Only in the processes that run these components.
    producer.Producer = ChainProducer  # type: ignore[attr-defined]
    kafka_reader.GroupConsumer = KilledMember  # type: ignore[attr-defined]


def source_of(topology: str) -> str:
    return f"{topology}.source"


def results_of(topology: str) -> str:
    return f"{topology}.results"


def arena() -> Arena:
    """The executed parts and acked messages, in memory that outlives the processes."""
    return Arena(directory() / "arena")


class Source(KafkaSpout):
    """Records each ack, and whether all parts of the message had been executed."""

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        self.arena = arena()
        super().open(context, collector)

    def ack(self, message_id: Any) -> None:
        super().ack(message_id)
        self.arena.ack(number_of(message_id >> 40, message_id & (2**40 - 1)), time.time())


def number_of(partition: int, offset: int) -> int:
    return offset * SOURCE_PARTITIONS + partition


def numbered(record: Record) -> tuple[int]:
    return (number_of(record.partition() or 0, record.offset() or 0),)


class Split(BasicBolt):
    streams = (declare({"number": int, "part": int}),)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        kill_point("executing")
        for part in range(PARTS):
            collector.emit((tuple_["number"], part))
        kill_point("emitted")


class Hold(Bolt):
    """Holds each tuple until the next tuple or a tick."""

    streams = Split.streams
    tick_interval = 0.1

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self.collector, self.held = collector, list[Tuple]()

    def execute(self, tuple_: Tuple) -> None:
        held, self.held = self.held, [] if tuple_.is_tick else [tuple_]
        for each in held:
            self.collector.emit(each.values, anchors=each)
            self.collector.ack(each)
        if self.held:
            kill_point("held")


class Relay(BasicBolt):
    streams = Split.streams

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        kill_point("relaying")
        collector.emit(tuple_.values)
        kill_point("relayed")


class Publish(KafkaBolt):
    """Records that it has executed each part."""

    def __init__(self) -> None:
        super().__init__(results_of(os.environ[NAME]), value=self.effect)

    @cached_property
    def arena(self) -> Arena:
        return arena()

    def effect(self, tuple_: Tuple) -> str:
        number, part = tuple_.values
        self.arena.effect(number, part)
        return json.dumps([number, part])


def _builder(guarantee: Guarantee) -> TopologyBuilder:
    builder = TopologyBuilder(os.environ[NAME], guarantee=guarantee, ack_partitions=2, message_timeout=120)
    source = source_of(os.environ[NAME])
    spout = Source(source, translate=numbered, streams=(declare({"number": int}),))
    builder.set_spout("messages", spout, tasks=2)
    builder.set_bolt("split", Split).local_grouping("messages")
    return builder


def _chain(guarantee: Guarantee) -> Topology:
    builder = _builder(guarantee)
    builder.set_bolt("hold", Hold).local_grouping("split")
    builder.set_bolt("publish", Publish).local_grouping("hold")
    return builder.build()


def at_least_once() -> Topology:
    return _chain("at_least_once")


def exactly_once() -> Topology:
    return _chain("exactly_once")


def leaving() -> Topology:
    """The parts leave the chain and enter a second one."""
    builder = _builder("at_least_once")
    builder.set_bolt("relay", Relay, tasks=2).shuffle_grouping("split")
    builder.set_bolt("publish", Publish).local_grouping("relay")
    return builder.build()

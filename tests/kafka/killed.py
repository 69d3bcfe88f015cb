"""Topologies whose processes are killed at chosen steps.

A test arms a step by writing its name into a file; the first process that comes to that step takes the file away and
kills itself. Processes of `split` are killed, and those of chains; the spout `numbers` is not.
"""

import os
import random
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaError, Producer, TopicPartition

from kafka_clients import producer
from kafka_clients.group_consumer import GroupConsumer
from spout_sdk import (
    BasicBolt,
    BasicCollector,
    Bolt,
    OutputCollector,
    TaskContext,
    Topology,
    TopologyBuilder,
    Tuple,
    declare,
)
from spout_sdk.kafka import kafka_reader
from tests.chaos.arena import PARTS
from tests.chaos.components import (
    NAME,
    SOURCE_PARTITIONS,
    Publish,
    Source,
    directory,
    numbered,
    results_of,
    source_of,
)
from tests.components import passing
from tuple_tree.manifest import Guarantee

PART: Final = declare({"number": int, "part": int})
KILLED: Final = ("split", "messages", "relay")
"""The components whose processes are killed; the last two are heads of chains."""
STEPS: Final = ("executing", "emitted", "flushed", "offsets", "committing", "committed")
"""Where a process can be killed: before an input is executed, when its outputs are emitted, when they have arrived at
the broker, when the offsets have arrived, during the commit, and after it."""
CHAIN_STEPS: Final = ("executing", "emitted", "held", "undelivered", "flushed", "offsets", "committed")
"""Also while `hold` holds tuples, and when a result was sent and is not delivered."""
LEAVING_STEPS: Final = ("executing", "emitted", "relaying", "relayed", "undelivered", "flushed", "committed")
"""Also before `relay` executes a tuple that has left the chain, and after it has emitted for it."""

ARMED: Final = "armed"
SIGNAL: Final = "signal"


def _takes(step: str) -> bool:
    armed = directory() / ARMED
    with suppress(FileNotFoundError):  # nothing is armed, or another process was faster
        if armed.read_text() == step:
            armed.rename(directory() / f"taken-{os.getpid()}")
            return True
    return False


def _die() -> None:
    number = directory() / SIGNAL
    os.kill(os.getpid(), int(number.read_text()) if number.exists() else signal.SIGKILL)


def kill_point(step: str) -> None:
    """Kills the process here if the test asks for this step."""
    if _takes(step):
        _die()


class KilledProducer(Producer):
    """A producer with the steps of a transaction, and one after `produce` of a result."""

    def produce(self, topic: str, *record: Any) -> None:
        super().produce(topic, *record)
        if topic == results_of(os.environ[NAME]):
            kill_point("undelivered")

    def send_offsets_to_transaction(self, positions: Any, group_metadata: Any, timeout: float = -1) -> None:
        kill_point("flushed")
        super().send_offsets_to_transaction(positions, group_metadata, timeout)
        kill_point("offsets")

    def commit_transaction(self, timeout: float = -1) -> None:
        if _takes("committing"):
            threading.Timer(random.uniform(0, 0.01), _die).start()
        super().commit_transaction(timeout)
        kill_point("committed")


class KilledMember(GroupConsumer):
    """A group member with the same steps for commits without transactions."""

    def begin_commit(self, offsets: list[TopicPartition]) -> None:
        kill_point("flushed")
        super().begin_commit(offsets)
        kill_point("offsets")

    def _answered(self, error: KafkaError | None, partitions: Sequence[TopicPartition], *sent: Any) -> None:
        super()._answered(error, partitions, *sent)
        kill_point("committed")


class PatientMember(GroupConsumer):
    """A member that stays in its group on a busy machine.

    Sessions are short so that the tasks of a killed process soon have another owner. A spout that lost its task and got
    it back would emit messages again.
    """

    def __init__(self, settings: dict[str, Any], *arguments: Any, **options: Any) -> None:
        super().__init__({**settings, "session.timeout.ms": 45_000}, *arguments, **options)


if sys.argv[-1:][0] in KILLED:
    # In processes of these components only.
    producer.Producer = KilledProducer  # type: ignore[attr-defined]
    kafka_reader.GroupConsumer = KilledMember  # type: ignore[attr-defined]
elif sys.argv[-1:][0] == "numbers":
    kafka_reader.GroupConsumer = PatientMember  # type: ignore[attr-defined,assignment]


class KilledSplit(BasicBolt):
    streams = (PART,)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        kill_point("executing")
        for part in range(PARTS):
            collector.emit((tuple_["number"], part))
        kill_point("emitted")


class Hold(Bolt):
    """Holds each tuple until the next tuple or a tick."""

    streams = (PART,)
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


class Relay(passing(PART)):  # type: ignore[misc]
    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        kill_point("relaying")
        super().execute(tuple_, collector)
        kill_point("relayed")


def _builder(guarantee: Guarantee, spout: str, tasks: int = 1, *, timeout: float = 180) -> TopologyBuilder:
    builder = TopologyBuilder(os.environ[NAME], guarantee=guarantee, ack_partitions=2, message_timeout=timeout)
    streams = (declare({"number": int}),)
    builder.set_spout(spout, Source(source_of(os.environ[NAME]), translate=numbered, streams=streams), tasks=tasks)
    return builder


def _three_steps(guarantee: Guarantee) -> Topology:
    builder = _builder(guarantee, "numbers")
    builder.set_bolt("split", KilledSplit, tasks=3).shuffle_grouping("numbers")
    builder.set_bolt("publish", partial(Publish, os.environ[NAME]), tasks=2).shuffle_grouping("split")
    return builder.build()


def at_least_once() -> Topology:
    return _three_steps("at_least_once")


def at_most_once() -> Topology:
    return _three_steps("at_most_once")


def exactly_once() -> Topology:
    return _three_steps("exactly_once")


def _chain(guarantee: Guarantee, *, leaves: bool = False) -> Topology:
    # A tree stays open until then if one part is acked again after a kill while the other part is not yet acked.
    builder = _builder(guarantee, "messages", SOURCE_PARTITIONS, timeout=20 if leaves else 180)
    builder.set_bolt("split", KilledSplit).local_grouping("messages")
    if leaves:
        builder.set_bolt("relay", Relay, tasks=2).shuffle_grouping("split")
    else:
        builder.set_bolt("hold", Hold).local_grouping("split")
    publish = builder.set_bolt("publish", partial(Publish, os.environ[NAME]))
    publish.local_grouping("relay" if leaves else "hold")
    return builder.build()


def chain_at_least_once() -> Topology:
    return _chain("at_least_once")


def chain_exactly_once() -> Topology:
    return _chain("exactly_once")


def chain_leaving() -> Topology:
    """The parts leave the chain and enter a second one."""
    return _chain("at_least_once", leaves=True)

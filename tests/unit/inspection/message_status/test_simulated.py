"""The status of each message of a simulated topology at random moments, with failures, time-outs and kills."""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from inspection.errors import StatusError
from inspection.message_status import MessageStatus, State, StatusReader
from kafka_clients.client_settings import CLIENT_CLASSES
from kafka_clients.librdkafka_bugs import forgettable
from spout_sdk import (
    Bolt,
    FailTupleError,
    KafkaSpout,
    OutputCollector,
    RetryPolicy,
    TaskContext,
    Topology,
    TopologyBuilder,
    Tuple,
    declare,
)
from spout_sdk.records import Record
from spout_sdk.testing import SimulatedCluster
from spout_sdk.testing.clients import MemoryAdmin, MemoryClients, MemoryConsumer
from spout_sdk.testing.tasks import LIMITLESS
from tests.seeds import each_seed
from tuple_tree.manifest import Guarantee

MESSAGES: Final = 12
PARTITIONS: Final = 2
TOPICS: Final = ("orders", "returns", "orders")
"""The topic of each message, in turn."""
POISON: Final = 7
"""The number of the message that always fails."""


class ReadingConsumer(MemoryConsumer):
    """A consumer that finds offsets by time."""

    def offsets_for_times(self, wanted: Iterable[TopicPartition], **_timeout: float) -> list[TopicPartition]:
        found = []
        for each in wanted:
            records = self._broker.fetch(each.topic, each.partition, 0, LIMITLESS)
            late = (record.offset() for record in records if record.timestamp()[1] >= each.offset)
            found.append(TopicPartition(each.topic, each.partition, next(late, -1)))
        return found


class ReadingAdmin(MemoryAdmin):
    """An admin client that lists offsets."""

    def list_offsets(self, wanted: Mapping[TopicPartition, OffsetSpec], **_timeout: float) -> dict[Any, Any]:
        found = {}
        for at, spec in wanted.items():
            is_begin = spec is OffsetSpec.earliest()  # type: ignore[no-untyped-call]
            answer: Future[Any] = Future()
            answer.set_result(SimpleNamespace(offset=0 if is_begin else self._broker.end(at.topic, at.partition)))
            found[at] = answer
        return found


class Truth:
    """The history of messages, by their values.

    Attributes:
        executed: messages that the first bolt has executed.
        is_settled: whether only one message fails from now on.
        copies: value and root of an attempt → the copies that were acked.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.copies: dict[tuple[str, int], set[str]] = {}
        self.executed: set[str] = set()
        self.is_settled = False

    @property
    def acked(self) -> set[str]:
        """Messages with an attempt whose two copies are acked."""
        return {value for (value, _), copies in self.copies.items() if copies == {"a", "b"}}


class Copy(Bolt):
    streams = (declare({"value": str, "copy": str}),)

    def __init__(self, truth: Truth) -> None:
        self._truth = truth

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self._collector = collector

    def execute(self, tuple_: Tuple) -> None:
        self._truth.executed.add(tuple_["value"])
        for copy in "ab":
            self._collector.emit((tuple_["value"], copy), anchors=[tuple_])
        self._collector.ack(tuple_)


class Ship(Bolt):
    """Acks most tuples, fails some, and holds some for ever."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self._collector = collector

    def execute(self, tuple_: Tuple) -> None:
        chance = 1.0 if self._truth.is_settled else self._truth.random.random()
        if chance < 0.1 or tuple_["value"] == "poison":
            raise FailTupleError("sold out")
        if chance < 0.3:
            return
        (root,) = tuple_.roots
        self._truth.copies.setdefault((tuple_["value"], root), set()).add(tuple_["copy"])
        self._collector.ack(tuple_)


def shop(truth: Truth, guarantee: Guarantee, *, chained: bool, outcomes: bool) -> Topology:
    builder = TopologyBuilder("shop", guarantee=guarantee, ack_partitions=2, message_timeout=30.0)
    retry = RetryPolicy(initial_delay=0.5, delay_period=0.5, max_delay=2.0)
    # Not in the order of their names.
    spout = KafkaSpout(["returns", "orders"], retry=retry, outcomes="outcomes" if outcomes else None)
    builder.set_spout("orders", spout)
    copy = builder.set_bolt("copy", partial(Copy, truth))
    copy.local_grouping("orders") if chained else copy.shuffle_grouping("orders")
    builder.set_bolt("ship", partial(Ship, truth), tasks=2).shuffle_grouping("copy")
    return builder.build()


@pytest.mark.parametrize(
    ("guarantee", "chained", "outcomes"),
    [("at_least_once", False, True), ("at_least_once", True, False), ("exactly_once", True, True)],
)
def test_a_message_is_never_done_before_it_is_and_is_done_in_the_end(
    guarantee: Guarantee, chained: bool, outcomes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    each_seed(partial(_run, monkeypatch, guarantee, chained=chained, outcomes=outcomes))


def _run(monkeypatch: pytest.MonkeyPatch, guarantee: Guarantee, seed: int, *, chained: bool, outcomes: bool) -> None:
    truth, chance = Truth(seed), random.Random(seed)
    topology = shop(truth, guarantee, chained=chained, outcomes=outcomes)
    topics = {**dict.fromkeys(TOPICS, PARTITIONS), **({"outcomes": 2} if outcomes else {})}
    with SimulatedCluster(topology, seed=seed, topics=topics, step=0.5) as cluster:
        monkeypatch.setattr("time.time_ns", lambda: cluster.clock.broker_ms * 1_000_000)
        for number in range(MESSAGES):
            cluster.produce(TOPICS[number % 3], _value(number), key=f"key {number}", partition=number % PARTITIONS)
        places = {record.key(): record for topic in {*TOPICS} for record in cluster.broker.records(topic)}
        read = _reader(cluster, [places[b"key %d" % number] for number in range(MESSAGES)])
        kills: list[Callable[[], object]] = [
            cluster.kill_acker,
            partial(cluster.kill, "orders"),
            partial(cluster.kill, "ship", 1),
        ]
        for _ in range(4):
            cluster.advance(chance.choice([0.5, 1.0, 10.0]))
            for _ in range(chance.randrange(3)):
                chance.choice(kills)()
            for number in range(MESSAGES):
                status = read(number)
                _check(status, number, truth, chained=chained, outcomes=outcomes)
                if not chained and not status.is_done:
                    assert status.root == _last_root(cluster, number), "that of the last attempt"
        truth.is_settled = True
        cluster.advance(100)
        states = [read(number).state for number in range(MESSAGES) if number != POISON]
        assert set(states) == {State.DONE}
        assert read(POISON).state in (State.WAITING, State.OPEN)


def _value(number: int) -> str:
    return "poison" if number == POISON else f"value {number}"


def _last_root(cluster: SimulatedCluster, number: int) -> int | None:
    roots = [root for each in cluster.emissions("orders") if each.values == (_value(number),) for root in each.roots]
    return roots[-1] if roots else None


def _check(status: MessageStatus, number: int, truth: Truth, *, chained: bool, outcomes: bool) -> None:
    value = _value(number)
    if status.is_done:
        assert value in truth.acked, status
        assert status.outcome == "acked" or (status.outcome is None and not outcomes)
    elif status.state is State.UNREAD:
        # A chain sends nothing to the ack log for a second.
        assert chained or value not in truth.executed
    elif status.state is State.WAITING:
        assert status.attempt is not None
        assert status.failure is not None
    elif status.root is not None:
        assert {each.component for each in status.components} <= {"orders", "copy", "ship"}
        assert status.components


def _reader(cluster: SimulatedCluster, records: Sequence[Record]) -> Callable[[int], MessageStatus]:
    settings = MemoryClients(cluster.broker, [0], room=LIMITLESS).settings
    clients = MemoryClients(cluster.broker, [0], room=LIMITLESS)
    classes = {
        **settings[CLIENT_CLASSES],
        Consumer: partial(ReadingConsumer, clients),
        forgettable(Consumer): partial(ReadingConsumer, clients),
        forgettable(AdminClient): partial(ReadingAdmin, cluster.broker),
    }

    def read(number: int) -> MessageStatus:
        record = records[number]
        with StatusReader({**settings, CLIENT_CLASSES: classes}, cluster.topology.manifest) as reader:
            try:
                (status,) = reader.of_position(f"{record.topic()}/{record.partition()}/{record.offset()}")
            except StatusError as error:
                pytest.fail(str(error))
        return status

    return read

"""The status of each message of a simulated topology at random moments, with failures, time-outs and kills."""

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import pytest

from inspection.errors import StatusError
from inspection.message_status import MessageStatus, State, StatusReader
from spout_sdk import (
    BasicBolt,
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
from tests.seeds import each_seed
from tests.unit.inspection.message_status.reading_clients import reading_settings
from tuple_tree.manifest import Guarantee

MESSAGES: Final = 12
PARTITIONS: Final = 2
TOPICS: Final = ("orders", "returns", "orders")
"""The topic of each message, in turn."""
POISON: Final = 7
"""The number of the message that always fails."""


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


def test_before_the_first_commit_a_message_is_not_read_yet_if_its_topic_is_named() -> None:
    """The manifest does not name the topics of a spout; its commits do."""
    topology = shop(Truth(0), "at_least_once", chained=False, outcomes=True)
    topics = {**dict.fromkeys(TOPICS, PARTITIONS), "outcomes": 2}
    with SimulatedCluster(topology, topics=topics, paused=["orders"]) as cluster:
        cluster.produce("orders", "first", key="A", partition=0)
        cluster.produce("orders", "second", key="B", partition=0)
        with StatusReader(reading_settings(cluster.broker), topology.manifest) as reader:
            found = [*reader.of_position("orders/0/1"), *reader.of_key(b"B", topic="orders")]
            assert [(each.state, each.message.offset, each.ahead) for each in found] == [(State.UNREAD, 1, 1)] * 2
            assert "`orders` has not committed an offset of this partition" in found[0].remarks[0]
            for search in (partial(reader.of_position, "0/1"), partial(reader.of_key, b"B")):
                with pytest.raises(StatusError, match=r"has committed an offset, .* name the topic, --topic TOPIC"):
                    search()
            with pytest.raises(StatusError, match="has committed an offset"):
                reader.of_position("missing/0/1")


class Spoils(BasicBolt):
    def execute(self, tuple_: Tuple, _collector: object) -> None:
        if tuple_["value"] == "poison":
            raise ValueError("spoilt")


@pytest.mark.parametrize("outcomes", ["outcomes", None])
def test_the_status_names_the_dead_letter_of_a_tuple(monkeypatch: pytest.MonkeyPatch, outcomes: str | None) -> None:
    """The message itself has none: its tree was fully processed, with the mark of the tuple."""
    builder = TopologyBuilder("shop", ack_partitions=2)
    builder.set_spout("orders", KafkaSpout("orders", outcomes=outcomes))
    builder.set_bolt("ship", Spoils, on_exception="dead_letter").shuffle_grouping("orders")
    with SimulatedCluster(builder.build()) as cluster:
        monkeypatch.setattr("time.time_ns", lambda: cluster.clock.broker_ms * 1_000_000)
        for value in ("good", "poison", "poison"):
            cluster.produce("orders", value)
        cluster.advance(2.0)
        with StatusReader(reading_settings(cluster.broker), cluster.topology.manifest) as reader:
            found = [reader.of_position(f"0/{offset}")[0] for offset in range(3)]
        assert [(each.outcome, each.dead_letter) for each in found] == [
            ("acked" if outcomes else None, None),
            ("dead-letter", 0),
            ("dead-letter", 1),
        ]


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
    settings = reading_settings(cluster.broker)

    def read(number: int) -> MessageStatus:
        record = records[number]
        with StatusReader(settings, cluster.topology.manifest) as reader:
            try:
                (status,) = reader.of_position(f"{record.topic()}/{record.partition()}/{record.offset()}")
            except StatusError as error:
                pytest.fail(str(error))
        return status

    return read

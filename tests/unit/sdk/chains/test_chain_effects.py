"""Tuples that chained bolts hold, emit without anchors, or forget: each has its effect once, and none is lost."""

import json
from collections import Counter
from typing import Any

import pytest

from spout_sdk import (
    ArrowBolt,
    ArrowCollector,
    AsyncBolt,
    AsyncCollector,
    BasicBolt,
    BasicCollector,
    Bolt,
    ComponentError,
    KafkaBolt,
    KafkaSpout,
    OutputCollector,
    RetryTupleError,
    StateCollector,
    StatefulBolt,
    TaskContext,
    TopologyBuilder,
    Tuple,
    declare,
)
from spout_sdk.bolts.bolt_task import BoltTask
from spout_sdk.emitting.dead_letters import DeadLetters
from spout_sdk.errors import DeliveryError
from spout_sdk.testing import SimulatedCluster
from tests.components import passing, source

NUMBER = declare({"n": int})
GROUPINGS = pytest.mark.parametrize("grouping", ["shuffle_grouping", "local_grouping"])


class Here:
    """Whether bolts may continue, and the numbers that they have received."""

    is_open = False
    seen: list[Any]


@pytest.fixture(autouse=True)
def _nothing_is_seen() -> None:
    Here.is_open, Here.seen = False, []


Numbers = source(NUMBER)


class Base(Bolt):
    streams = (NUMBER,)

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self.collector, self.held = collector, list[Tuple]()


class Aside(Base):
    """Emits each number without an anchor, and holds its input while `Here` is not open."""

    def execute(self, tuple_: Tuple) -> None:
        self.collector.emit((int(tuple_.values[0]),))
        self.held.append(tuple_)
        while self.held and Here.is_open:
            self.collector.ack(self.held.pop())


class AsideAtOnce(Base):
    """Emits each number without an anchor, and acks its input."""

    def execute(self, tuple_: Tuple) -> None:
        self.collector.emit((int(tuple_.values[0]),))
        self.collector.ack(tuple_)


class Gate(Base):
    """Acks what it has when `Here` is open."""

    def execute(self, tuple_: Tuple) -> None:
        self.held.append(tuple_)
        while self.held and Here.is_open:
            self.collector.ack(self.held.pop())


class Later(BasicBolt):
    """Passes tuples on when `Here` is open."""

    streams = (NUMBER,)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        if not Here.is_open:
            raise RetryTupleError("not yet", delay=0.5)
        collector.emit(tuple_.values)


class Forget(Base):
    def execute(self, tuple_: Tuple) -> None:
        """Neither acks nor fails."""


class ForgetOrRetry(Base):
    """Forgets 0, and retries all other numbers."""

    def execute(self, tuple_: Tuple) -> None:
        if tuple_["n"]:
            self.collector.retry(tuple_, "not yet", delay=1.0)


class Seen(BasicBolt):
    streams = (NUMBER,)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        Here.seen.append(tuple_["n"])


Pass = passing(NUMBER)


class Call(AsyncBolt):
    streams = (NUMBER,)

    async def execute_async(self, tuple_: Tuple, collector: AsyncCollector) -> None:
        collector.emit(tuple_.values)


def exactly_once() -> TopologyBuilder:
    """A topology that reads lines from the topic `source`."""
    builder = TopologyBuilder("effects", guarantee="exactly_once", message_timeout=30)
    builder.set_spout("lines", KafkaSpout("source"))
    return builder


def published(cluster: SimulatedCluster) -> Counter[int]:
    return Counter(json.loads(record.value() or b"")["n"] for record in cluster.records("out"))


@GROUPINGS
def test_an_effect_without_an_anchor_is_not_committed_before_an_input_that_may_have_had_it(grouping: str) -> None:
    builder = exactly_once()
    getattr(builder.set_bolt("aside", Aside), grouping)("lines")
    builder.set_bolt("publish", lambda: KafkaBolt("out")).shuffle_grouping("aside")
    with SimulatedCluster(builder.build(), topics={"source": 1, "out": 1}) as cluster:
        for number in range(3):
            cluster.produce("source", str(number))
        cluster.advance(2)
        cluster.kill("aside")
        Here.is_open = True
        cluster.advance(5)
        cluster.produce("source", "3")
        cluster.advance(5)
        assert published(cluster) == dict.fromkeys(range(4), 1)


@GROUPINGS
@pytest.mark.parametrize("head", ["lines", "aside"])
def test_a_tuple_without_a_tree_that_waits_in_a_chain_is_not_lost(head: str, grouping: str) -> None:
    builder = exactly_once()
    aside = builder.set_bolt("aside", AsideAtOnce)
    (aside.local_grouping if head == "lines" else aside.shuffle_grouping)("lines")
    getattr(builder.set_bolt("later", Later), grouping)("aside")
    builder.set_bolt("publish", lambda: KafkaBolt("out")).shuffle_grouping("later")
    with SimulatedCluster(builder.build(), topics={"source": 1, "out": 1}) as cluster:
        for number in range(3):
            cluster.produce("source", str(number))
        cluster.advance(3)
        cluster.kill("later")
        Here.is_open = True
        cluster.advance(20)
        assert published(cluster) == dict.fromkeys(range(3), 1)


def test_tuples_without_a_tree_are_committed_under_load() -> None:
    builder = exactly_once()
    builder.set_bolt("aside", AsideAtOnce).shuffle_grouping("lines")
    builder.set_bolt("pass", Pass).local_grouping("aside")
    builder.set_bolt("publish", lambda: KafkaBolt("out")).local_grouping("pass")
    with SimulatedCluster(builder.build(), topics={"source": 1, "out": 1}) as cluster:
        for number in range(2_000):
            cluster.produce("source", str(number))
        cluster.advance(5)
        assert published(cluster) == dict.fromkeys(range(2_000), 1)


@GROUPINGS
def test_a_state_whose_chain_is_open_counts_each_input_once(grouping: str) -> None:
    class Count(StatefulBolt):
        state = int
        streams = (NUMBER,)

        def update(self, count: int, tuple_: Tuple) -> int:
            return count + 1

        def emit(self, key: int, count: int, tuple_: Tuple, collector: StateCollector) -> None:
            collector.emit((count,))

    builder = TopologyBuilder("effects", guarantee="exactly_once", message_timeout=30)
    builder.set_spout("numbers", Numbers)
    builder.set_bolt("count", Count).fields_grouping("numbers", "n")
    getattr(builder.set_bolt("gate", Gate), grouping)("count")
    with SimulatedCluster(builder.build(), sources={"numbers": [(7,)] * 3}) as cluster:
        cluster.advance(2)
        cluster.kill("count")
        Here.is_open = True
        cluster.advance(5)
        assert cluster.state("count") == {7: 3}


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_messages_of_a_chain_that_writes_nothing_are_acked(guarantee: Any) -> None:
    builder = TopologyBuilder("effects", guarantee=guarantee, message_timeout=30)
    builder.set_spout("numbers", Numbers)
    builder.set_bolt("seen", Seen).local_grouping("numbers")
    with SimulatedCluster(builder.build(), sources={"numbers": [(0,)]}) as cluster:
        for number in range(1, 4):
            cluster.advance(5)
            cluster.feed("numbers", (number,))
        cluster.advance(5)
        assert cluster.acked("numbers") == [0, 1, 2, 3]


@GROUPINGS
@pytest.mark.parametrize("head", ["spout", "async"])
def test_a_forgotten_tuple_times_out_although_others_are_retried(head: str, grouping: str) -> None:
    builder = TopologyBuilder("effects", message_timeout=30)
    builder.set_spout("numbers", Numbers)
    if head == "async":
        builder.set_bolt("call", Call).shuffle_grouping("numbers")
        getattr(builder.set_bolt("forget", Forget), grouping)("call")
    else:
        getattr(builder.set_bolt("forget", ForgetOrRetry), grouping)("numbers")
    with SimulatedCluster(builder.build(), sources={"numbers": [(0,), (1,)][: 1 + (head == "spout")]}) as cluster:
        cluster.advance(90)
        assert [message_id for message_id, _ in cluster.failed("numbers")] == [0]


def test_a_flush_between_two_bolts_leaves_no_tuple_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    class Burst(ArrowBolt):
        """Emits more than may wait in a chain."""

        streams = (NUMBER,)

        def execute_batch(self, batch: Any, collector: ArrowCollector) -> None:
            for size in (9_700, 500):
                collector.emit({"n": list(range(size))}, anchors=[0] * size)
            collector.ack()

    executed = BoltTask.execute_batch

    def execute_batch(self: BoltTask, batch: Any) -> None:
        executed(self, batch)
        self._since = -100.0  # what is buffered has lingered, so the next tick flushes

    monkeypatch.setattr(BoltTask, "execute_batch", execute_batch)
    builder = TopologyBuilder("effects", message_timeout=5)
    builder.set_spout("numbers", Numbers)
    builder.set_bolt("burst", Burst).shuffle_grouping("numbers")
    builder.set_bolt("pass", Pass).local_grouping("burst")
    builder.set_bolt("seen", Seen).local_grouping("pass")
    with SimulatedCluster(builder.build(), sources={"numbers": [(1,)]}) as cluster:
        cluster.run_until_idle()
        assert len(Here.seen) == 10_200
        assert cluster.acked("numbers") == [0]


def test_what_a_bolt_emits_as_it_ends_is_executed_by_the_next_one() -> None:
    class Final(Base):
        def execute(self, tuple_: Tuple) -> None:
            self.collector.ack(tuple_)

        def cleanup(self) -> None:
            for number in range(300):
                self.collector.emit((number,))

    builder = TopologyBuilder("effects", message_timeout=5)
    builder.set_spout("numbers", Numbers)
    builder.set_bolt("final", Final).local_grouping("numbers")
    builder.set_bolt("seen", Seen).local_grouping("final")
    with SimulatedCluster(builder.build(), sources={"numbers": []}) as cluster:
        cluster.run_until_idle()
    assert Here.seen == [*range(300)]


def test_nothing_is_executed_after_a_call_that_ends_the_process() -> None:
    class Crash(Seen):
        def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
            super().execute(tuple_, collector)
            if tuple_["n"] == 3:
                raise ValueError("ends the process")

    builder = TopologyBuilder("effects", message_timeout=5)
    builder.set_spout("numbers", Numbers)
    builder.set_bolt("crash", Crash, on_exception="crash").local_grouping("numbers")
    cluster = SimulatedCluster(builder.build(), sources={"numbers": [(number,) for number in range(10)]})
    with pytest.raises(ComponentError):
        cluster.run_until_idle()
    executed = [*Here.seen]
    cluster._tasks["numbers", 0]._loop.close()
    assert Here.seen == executed


def test_a_dead_letter_that_cannot_be_delivered_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    class Invalid(BasicBolt):
        def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
            raise ValueError("no")

    def refused(self: DeadLetters, *_: Any) -> None:
        self.failure = DeliveryError("a dead letter", self.topic, 0, "no such topic")

    monkeypatch.setattr(DeadLetters, "send_record", refused)
    builder = TopologyBuilder("effects", message_timeout=5)
    builder.set_spout("numbers", Numbers)
    invalid = builder.set_bolt("invalid", Invalid, on_exception="dead_letter", max_consecutive_failures=0)
    invalid.local_grouping("numbers")
    cluster = SimulatedCluster(builder.build(), sources={"numbers": [(1,)]})
    with pytest.raises(DeliveryError, match="no such topic"):
        cluster.advance(20)

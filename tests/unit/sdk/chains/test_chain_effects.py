"""Tuples that chained bolts hold, emit without anchors, or forget: each has its effect once, and none is lost."""

import json
from collections import Counter
from typing import Any

import pytest

from spout_sdk import BasicBolt, BasicCollector, KafkaBolt, KafkaSpout, RetryTupleError, TopologyBuilder, Tuple, declare
from spout_sdk.arrow import ArrowBolt, ArrowCollector
from spout_sdk.bolts.step import Step
from spout_sdk.emitting.dead_letters import DeadLetters
from spout_sdk.errors import ComponentError, DeliveryError
from spout_sdk.state import StateCollector, StatefulBolt
from spout_sdk.testing import SimulatedCluster
from tests.components import ByHand, kinds, source

NUMBER = declare({"n": int})
GROUPINGS = pytest.mark.parametrize("grouping", ["shuffle", "local"])
PASS = kinds(lambda values, _: [(values, "default")], NUMBER)


class Here:
    """Whether bolts may continue, and the numbers that they have received."""

    is_open = False
    seen: list[Any]


@pytest.fixture(autouse=True)
def _nothing_is_seen() -> None:
    Here.is_open, Here.seen = False, []


class Gate(ByHand):
    """Acks what it has when `Here` is open."""

    streams = (NUMBER,)

    def execute(self, tuple_: Tuple) -> None:
        self.held.append(tuple_)
        while self.held and Here.is_open:
            self.collector.ack(self.held.pop())


class Aside(Gate):
    """Emits each number without an anchor, and holds its input while `Here` is not open."""

    def execute(self, tuple_: Tuple) -> None:
        self.collector.emit((int(tuple_.values[0]),))
        super().execute(tuple_)


class AsideAtOnce(ByHand):
    """Emits each number without an anchor, and acks its input."""

    streams = (NUMBER,)

    def execute(self, tuple_: Tuple) -> None:
        self.collector.emit((int(tuple_.values[0]),))
        self.collector.ack(tuple_)


class Later(BasicBolt):
    """Passes tuples on when `Here` is open."""

    streams = (NUMBER,)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        if not Here.is_open:
            raise RetryTupleError("not yet", delay=0.5)
        collector.emit(tuple_.values)


class Forget(ByHand):
    """Neither acks nor fails 0, and retries all other numbers."""

    def execute(self, tuple_: Tuple) -> None:
        if tuple_["n"]:
            self.collector.retry(tuple_, "not yet", delay=1.0)


class Seen(BasicBolt):
    streams = (NUMBER,)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        Here.seen.append(tuple_["n"])


class Count(StatefulBolt):
    state = int
    streams = (NUMBER,)

    def update(self, count: int, tuple_: Tuple) -> int:
        return count + 1

    def emit(self, key: int, count: int, tuple_: Tuple, collector: StateCollector) -> None:
        collector.emit((count,))


def cluster(
    *bolts: tuple[str, Any],
    numbers: int | list[tuple[int]] | None = None,
    guarantee: Any = "exactly_once",
    message_timeout: float = 30,
    **options: Any,
) -> SimulatedCluster:
    """A chain of bolts and their groupings behind a topic of numbers, or behind a mocked spout that has `numbers`."""
    builder = TopologyBuilder("effects", guarantee=guarantee, message_timeout=message_timeout)
    builder.set_spout("bolt-0", KafkaSpout("source") if numbers is None else source(NUMBER))
    for number, (grouping, bolt) in enumerate(bolts):
        declarer = builder.set_bolt(f"bolt-{number + 1}", bolt, **(options if number == len(bolts) - 1 else {}))
        getattr(declarer, f"{grouping}_grouping")(f"bolt-{number}", *(["n"] if grouping == "fields" else []))
    if numbers is None:
        return SimulatedCluster(builder.build(), topics={"source": 1, "out": 1}, step=0.5)
    fed = numbers if isinstance(numbers, list) else [(number,) for number in range(numbers)]
    return SimulatedCluster(builder.build(), sources={"bolt-0": fed}, step=0.5)


def publish() -> KafkaBolt:
    return KafkaBolt("out")


def produce(running: SimulatedCluster, *numbers: int) -> None:
    for number in numbers:
        running.produce("source", str(number))


def published(running: SimulatedCluster) -> Counter[int]:
    return Counter(json.loads(record.value() or b"")["n"] for record in running.records("out"))


@GROUPINGS
def test_an_effect_without_an_anchor_is_not_committed_before_an_input_that_may_have_had_it(grouping: str) -> None:
    with cluster((grouping, Aside), ("shuffle", publish)) as running:
        produce(running, 0, 1, 2)
        running.advance(2)
        running.kill("bolt-1")
        Here.is_open = True
        running.advance(5)
        produce(running, 3)
        running.advance(5)
        assert published(running) == dict.fromkeys(range(4), 1)


@GROUPINGS
@pytest.mark.parametrize("head", ["local", "shuffle"])
def test_a_tuple_without_a_tree_that_waits_in_a_chain_is_not_lost(head: str, grouping: str) -> None:
    with cluster((head, AsideAtOnce), (grouping, Later), ("shuffle", publish)) as running:
        produce(running, 0, 1, 2)
        running.advance(3)
        running.kill("bolt-2")
        Here.is_open = True
        running.advance(20)
        assert published(running) == dict.fromkeys(range(3), 1)


def test_tuples_without_a_tree_are_committed_under_load() -> None:
    with cluster(("shuffle", AsideAtOnce), ("local", PASS.basic), ("local", publish)) as running:
        produce(running, *range(1_000))
        running.advance(5)
        assert published(running) == dict.fromkeys(range(1_000), 1)


@GROUPINGS
def test_a_state_whose_chain_is_open_counts_each_input_once(grouping: str) -> None:
    with cluster(("fields", Count), (grouping, Gate), numbers=[(7,)] * 3) as running:
        running.advance(2)
        running.kill("bolt-1")
        Here.is_open = True
        running.advance(5)
        assert running.state("bolt-1") == {7: 3}


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_messages_of_a_chain_that_writes_nothing_are_acked(guarantee: Any) -> None:
    with cluster(("local", Seen), numbers=1, guarantee=guarantee) as running:
        for number in range(1, 4):
            running.advance(5)
            running.feed("bolt-0", (number,))
        running.advance(5)
        assert running.acked("bolt-0") == [0, 1, 2, 3]


@GROUPINGS
@pytest.mark.parametrize("before", [[], [("shuffle", PASS.coroutines)]], ids=["behind a spout", "behind coroutines"])
def test_a_forgotten_tuple_times_out_although_others_are_retried(before: Any, grouping: str) -> None:
    with cluster(*before, (grouping, Forget), numbers=1 if before else 2, guarantee="at_least_once") as running:
        running.advance(90)
        assert [message_id for message_id, _ in running.failed("bolt-0")] == [0]


def test_a_flush_between_two_bolts_leaves_no_tuple_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    class Burst(ArrowBolt):
        """Emits more than may wait in a chain."""

        streams = (NUMBER,)

        def execute_batch(self, batch: Any, collector: ArrowCollector) -> None:
            for size in (9_700, 500):
                collector.emit({"n": list(range(size))}, anchors=[0] * size)
            collector.ack()

    executed = Step.run

    def run(self: Step, until: float) -> bool:
        is_executed = executed(self, until)
        self.outbox.flush()
        return is_executed

    monkeypatch.setattr(Step, "run", run)
    chain = ("shuffle", Burst), ("local", PASS.basic), ("local", Seen)
    with cluster(*chain, numbers=1, guarantee="at_least_once", message_timeout=5) as running:
        running.run_until_idle()
        assert len(Here.seen) == 10_200
        assert running.acked("bolt-0") == [0]


def test_what_a_bolt_emits_as_it_ends_is_executed_by_the_next_one() -> None:
    class Final(AsideAtOnce):
        def cleanup(self) -> None:
            for number in range(300):
                self.collector.emit((number,))

    with cluster(("local", Final), ("local", Seen), numbers=0, guarantee="at_least_once") as running:
        running.run_until_idle()
    assert Here.seen == [*range(300)]


def test_nothing_is_executed_after_a_call_that_ends_the_process() -> None:
    class Crash(Seen):
        def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
            super().execute(tuple_, collector)
            if tuple_["n"] == 3:
                raise ValueError("ends the process")

    running = cluster(("local", Crash), numbers=10, guarantee="at_least_once", on_exception="crash")
    with pytest.raises(ComponentError):
        running.run_until_idle()
    executed = [*Here.seen]
    running._tasks["bolt-0", 0]._loop.close()
    assert Here.seen == executed


def test_a_dead_letter_that_cannot_be_delivered_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    class Invalid(BasicBolt):
        def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
            raise ValueError("no")

    def refused(self: DeadLetters, *_: Any) -> None:
        self.failure = DeliveryError("a dead letter", self.topic, 0, "no such topic")

    monkeypatch.setattr(DeadLetters, "send_record", refused)
    options: Any = {"on_exception": "dead_letter", "max_consecutive_failures": 0}
    running = cluster(("local", Invalid), numbers=1, guarantee="at_least_once", **options)
    with pytest.raises(DeliveryError, match="no such topic"):
        running.advance(20)

"""Ten staged incidents: within 30 s the first finding is the right one; and a healthy hour without any finding.

The processes run as they are, on the simulated cluster, and report their own statistics. `tests/kafka/test_health.py`
has the same on a real Kafka.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from spout_sdk import (
    BasicBolt,
    BasicCollector,
    Bolt,
    KafkaSpout,
    OutputCollector,
    RetryPolicy,
    TopologyBuilder,
    Tuple,
    declare,
)
from spout_sdk.errors import StateError, TopicsError
from spout_sdk.state import StatefulBolt
from spout_sdk.state.stores import MemoryStore
from tests.unit.inspection.health.watched import HOST, SOURCE, Watched

DETECTED_SECONDS: Final = 30
BEFORE: Final = 10
"""Seconds of healthy work before each incident."""


class Price(BasicBolt):
    """Calls a service for each order, and emits its answer."""

    streams = (declare({"value": str}),)
    service: Callable[[str], object] = staticmethod(lambda _order: None)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        type(self).service(tuple_["value"])
        collector.emit(tuple_.values)


class Book(BasicBolt):
    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        """Writes nothing down."""


class Total(StatefulBolt):
    state_key = ("value",)
    state = {"count": int}

    def update(self, value: Any, tuple_: Tuple) -> Any:
        return {"count": 1 + (value["count"] if value else 0)}


def orders(second: int) -> list[bytes]:
    return [b"%d" % (5 * second + each) for each in range(5)]


@pytest.fixture(autouse=True)
def service(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[str], object]], None]:
    """Replaces the service that `Price` calls."""

    def replaced(by: Callable[[str], object]) -> None:
        monkeypatch.setattr(Price, "service", staticmethod(by))

    replaced(lambda _order: None)
    return replaced


Service = Callable[[Callable[[str], object]], None]


def shop(
    load: Callable[[int], list[bytes]] = orders, *, tasks: int = 2, last: Any = Book, pending: int = 1_000, **bolt: Any
) -> Watched:
    builder = TopologyBuilder("shop", max_spout_pending=pending)
    builder.set_spout("orders", KafkaSpout(SOURCE))
    builder.set_bolt("price", Price, tasks=tasks, **bolt).fields_grouping("orders", "value")
    builder.set_bolt("book", last).fields_grouping("price", "value")
    return Watched(builder.build(), load)


def assert_found(shop: Watched, check: str, component: str | None, *words: str) -> None:
    """The right finding was the first one within 30 s, none before named another cause, and it stays the first."""
    assert shop.seen[:BEFORE] == [[]] * BEFORE
    at = shop.first_of(check)
    assert at is not None, shop.seen[-1]
    assert at - BEFORE < DETECTED_SECONDS
    assert {found[0].component for found in shop.seen[BEFORE:at] if found} <= {component}
    finding = shop.seen[-1][0]
    assert (finding.check, finding.component) == (check, component)
    for each in words:
        assert each in finding.found + finding.remedy, finding


def test_the_service_of_a_bolt_is_down(service: Service) -> None:
    watched = shop()
    watched.run(BEFORE)

    def down(_order: str) -> None:
        raise ConnectionError("prices:443 refused the connection")

    service(down)
    watched.run(35)
    assert_found(watched, "paused", "price", "All calls of bolt price raise", "prices:443 refused", "Check the service")
    # The service is back, and with the next call that is tried the finding goes.
    service(lambda _order: None)
    assert watched.run(35) == []


def test_the_service_of_a_bolt_is_slow(service: Service) -> None:
    watched = shop(tasks=1)
    watched.run(BEFORE)
    service(lambda _order: watched.pass_time(1))
    watched.run(40)
    assert_found(watched, "slow", "price", "price is busy for", "See what execute waits for, such as a slow service")


def run_with_poison(watched: Watched, service: Service) -> None:
    """Runs with a message, two seconds after the healthy work, that no call can process."""
    watched.run(BEFORE)

    def parse(order: str) -> None:
        if order == str(5 * (BEFORE + 2)):
            raise ValueError("no price in it")

    service(parse)
    watched.run(35)


def test_a_poison_message(service: Service) -> None:
    watched = shop()
    run_with_poison(watched, service)
    assert_found(watched, "open-messages", "price", f"{SOURCE}[1] offset 27", "in bolt price with", "no price in it")


def test_a_poison_message_that_its_task_retries(service: Service) -> None:
    watched = shop(on_exception="retry", retry=RetryPolicy(max_delay=1.0))
    run_with_poison(watched, service)
    assert_found(watched, "retries", "price", "the tuple at shop.tuples.price[", "no price in it", "max_retries")


def test_an_execute_that_hangs(service: Service) -> None:
    watched = shop()
    watched.run(BEFORE)
    hanging = {str(5 * (BEFORE + 2))}
    service(lambda order: watched.pass_time(40) if order in hanging else None)
    watched.run(35)
    at = watched.first_of("execute")
    assert at is not None
    assert at - BEFORE < DETECTED_SECONDS
    (finding, *_) = watched.seen[at]
    assert (finding.component, watched.seen[at - 1]) == ("price", [])
    assert "Bolt price: one execute has been running for" in finding.found
    assert "test_incidents.py" in finding.found, "the line of code"


def test_the_disk_of_a_store_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = shop(last=Total)
    watched.run(BEFORE)

    def full(_store: MemoryStore, _changes: Any, _position: Any) -> None:
        # What `RocksStore` raises on a full disk.
        raise StateError(
            "the store of shop.state.book[0] at /state/book/0 cannot be written (IO error: No space left on device: "
            "While appending to file: 000004.log): free its disk and restart the process"
        )

    monkeypatch.setattr(MemoryStore, "apply", full)
    watched.run(35)
    assert_found(watched, "groups", "book", "No space left on device", "Free space on the disk of its host")


def test_no_acker_worker_runs() -> None:
    watched = shop()
    watched.run(BEFORE)
    watched.kill("acker")
    watched.run(40)
    assert_found(watched, "ackers", None, "no acker worker: no tree completes", "acker worker --topology shop")


def test_a_process_lacks_an_acl() -> None:
    watched = shop()
    watched.run(BEFORE)
    watched.end_process("book", TopicsError("shop.tuples.book", "may not be read by this user: allow Read"))
    watched.run(20)
    assert_found(watched, "groups", "book", "shop.tuples.book may not be read", "acker topics acls MODULE:TOPOLOGY")


def test_a_clock_is_wrong() -> None:
    watched = shop()
    watched.run(BEFORE)
    watched.ahead_ms[HOST] = -7_000
    watched.run(30)
    assert_found(watched, "clock", None, f"The clock of {HOST} is 7.0 s behind that of the brokers", "NTP")


def test_one_key_has_nearly_all_tuples(service: Service) -> None:
    hot: list[bytes] = []
    watched = shop(lambda second: hot or orders(second), tasks=4)
    watched.run(BEFORE)
    service(lambda _order: watched.pass_time(0.1))
    hot += [b"hot"] * 20
    watched.run(40)
    assert_found(watched, "skew", "price", "one key, or a few, make it slow", "Group by a finer key")


def test_a_lag_grows() -> None:
    """More messages come than `max_spout_pending` allows, and no bolt is busy."""

    class Slow(Bolt):
        """Acks an input after a second, as one that waits for another system does."""

        def prepare(self, _context: Any, collector: OutputCollector) -> None:
            self.collector = collector

        def execute(self, tuple_: Tuple) -> None:
            held.append((watched.now, self.collector, tuple_))

    held: list[tuple[float, OutputCollector, Tuple]] = []
    rate = 5

    def load(second: int) -> list[bytes]:
        while held and held[0][0] <= watched.now - 1:
            _, collector, tuple_ = held.pop(0)
            collector.ack(tuple_)
        return [b"%d-%d" % (second, each) for each in range(rate)]

    watched = shop(load, last=Slow, pending=10)
    watched.run(BEFORE)
    rate = 50
    watched.run(35)
    assert_found(watched, "lag", "orders", "Group shop.orders has a lag of", "it grows", "max_spout_pending")


@pytest.mark.parametrize("limit_ms", [0, 150_000])
def test_a_call_within_the_time_limit_of_its_bolt_is_no_incident(limit_ms: int) -> None:
    """No tree of the spout ends for three message timeouts."""

    class Ask(Bolt):
        """Waits for an answer that does not come, and keeps its trees alive, as an `AsyncBolt` does."""

        def prepare(self, _context: Any, collector: OutputCollector) -> None:
            self.collector = collector

        def execute(self, tuple_: Tuple) -> None:
            asked.append((self.collector, tuple_))

    asked: list[tuple[OutputCollector, Tuple]] = []

    def load(second: int) -> list[bytes]:
        for collector, tuple_ in asked:
            collector.reset_timeout(tuple_)
        return [b"one"] if second == BEFORE else []

    settings = {"book": {"time_limit_ms": limit_ms}}
    topology = replace(shop(last=Ask).topology, settings=settings if limit_ms else {})
    watched = Watched(topology, load)
    watched.run(BEFORE + 95)
    assert len(asked) == 1
    # A client in memory does not report that no record is unread.
    findings = (each for second in watched.seen for each in second if each.check != "lag")
    found = {(each.check, each.component) for each in findings}
    assert found == (set() if limit_ms else {("inputs", "book"), ("stalled", "orders")})


@pytest.mark.parametrize("minutes", [2, pytest.param(60, marks=pytest.mark.exhaustive)])
def test_a_healthy_topology_has_no_finding(minutes: int) -> None:
    """With bursts, a restart of each task, kills, and a message that fails twice."""
    failures = {"7": 2, "400": 2}

    def fails(order: str) -> None:
        if failures.get(order):
            failures[order] -= 1
            raise ValueError("once more")

    watched = shop(lambda second: orders(second) * (20 if second % 60 == 0 else 1), last=Total)
    Price.service = staticmethod(fails)
    for minute in range(minutes):
        watched.run(60)
        for component in ("orders", "price", "book"):
            (watched.cluster.kill if minute % 2 else watched.cluster.restart)(component)
        watched.cluster.kill_acker()
    assert [found for found in watched.seen if found] == []
    assert not any(failures.values())
    assert len(watched.cluster.acked("orders")) > 60 * minutes * 5


@pytest.mark.parametrize("control", ["paused", "draining", "stopped"])
def test_what_an_operator_has_asked_for_is_no_incident(control: Any) -> None:
    watched = shop()
    watched.run(BEFORE)
    watched.control = control
    watched.cluster.pause("orders")
    if control == "stopped":
        for process in ("price", "book", "acker"):
            watched.kill(process)
        watched.silent.add("orders")
    watched.run(40)
    assert [found for found in watched.seen if found] == []

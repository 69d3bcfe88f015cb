"""`acker status` on a real broker: messages that are done, open, waiting, dead letters, skipped and not read."""

import json
import uuid
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any, Final

import pytest
from confluent_kafka import Producer

from inspection.dashboard.source import Source as DashboardSource
from inspection.errors import StatusError
from inspection.message_status import MessageStatus, State, StatusReader, status
from spout_sdk import FailTupleError, KafkaSpout, OutputCollector, RetryPolicy, Tuple, declare
from spout_sdk.errors import InvalidMessageError
from tests.components import passing
from tests.contract.components import Executed, FunctionBolt
from tests.contract.real import RealWorld
from tests.kafka.sdk_rig import InThreads, Source, in_threads
from tests.pages import names_of
from tests.unit.cli.running import Acker, call_acker, one_line
from tests.waiting import eventually

# So that one process runs each topology once.
pytestmark = pytest.mark.xdist_group("message status")

READ_AHEAD: Final = 4
"""Offsets that a partition is read ahead of its first open message."""
MESSAGES: Final = ("ok", "skip", "bad", "fail", "ok"), ("hold", "ok", "ok", "ok", "late")
"""Values by partition; the key of each is `value-partition-offset`."""


def translate(record: Any) -> tuple[str, int] | None:
    value = record.value().decode()
    if value == "bad":
        raise InvalidMessageError("no order")
    return None if value == "skip" else (value, 0)


def ship(tuple_: Tuple, collector: OutputCollector) -> None:
    """Never acks `hold`, and fails `fail`."""
    if tuple_["word"] == "fail":
        raise FailTupleError("sold out")
    if tuple_["word"] != "hold":
        collector.ack(tuple_)


def made(servers: str, *, has_outcomes: bool) -> Source:
    """The topology, and the messages; each message's second failure waits for ten minutes."""
    orders, stream = f"orders-{uuid.uuid4().hex[:8]}", declare({"word": str, "number": int})
    spout = KafkaSpout(
        orders,
        translate=translate,
        streams=[stream],
        retry=RetryPolicy(initial_delay=0.0, delay_period=300.0, max_delay=600.0),
        outcomes=f"{orders}-outcomes" if has_outcomes else None,
        max_uncommitted_offsets=READ_AHEAD,
    )
    builder = RealWorld(servers).builder(ack_partitions=2, message_timeout=120.0)
    builder.set_spout("orders", spout)
    builder.set_bolt("pack", passing(stream)).shuffle_grouping("orders")
    builder.set_bolt("ship", partial(FunctionBolt, Executed(ship))).shuffle_grouping("pack")
    shop = Source(servers, builder.build(), {orders: len(MESSAGES)})
    producer = Producer(shop.bootstrap)
    for partition, values in enumerate(MESSAGES):
        for offset, value in enumerate(values):
            producer.produce(orders, value, f"{value}-{partition}-{offset}", partition=partition)
    assert producer.flush(60) == 0
    return shop


def await_state(shop: Source, running: InThreads) -> None:
    """Waits until nothing changes any more."""
    acked = sum(value == "ok" for values in MESSAGES for value in values)
    eventually(lambda: running.stats["orders"].acked == acked, "all acks that there will be", 60)

    def is_quiet() -> bool:
        with StatusReader(shop.bootstrap, shop.manifest) as reader:
            (failing,) = reader.of_position("0/3")
            (later,) = reader.of_position("1/3")
        return failing.state is State.WAITING and failing.attempt == 2 and later.is_done

    eventually(is_quiet, "two failures and all acks committed", 60)


NO_OUTCOMES: Final = pytest.param(False, marks=pytest.mark.exhaustive, id="no outcomes")


@pytest.fixture(scope="module", params=[pytest.param(True, id="outcomes"), NO_OUTCOMES])
def shop(request: pytest.FixtureRequest, bootstrap_servers: str) -> Iterator[Source]:
    shop = made(bootstrap_servers, has_outcomes=request.param)
    with in_threads(shop.topology, shop.bootstrap) as running:
        await_state(shop, running)
        yield shop


def test_the_status_of_each_message(shop: Source) -> None:
    def of(partition: int, offset: int) -> MessageStatus:
        return status(shop.name, shop.bootstrap, offset=f"{partition}/{offset}")

    knows = bool(shop.manifest.outcome_topics)
    for done in (of(0, 0), of(0, 4), of(1, 3)):
        expected = (State.DONE, "acked", 1) if knows else (State.DONE, None, None)
        assert (done.state, done.outcome, done.attempt) == expected
    assert of(0, 1).outcome == ("skipped" if knows else None)
    rejected, waiting, held, unread = of(0, 2), of(0, 3), of(1, 0), of(1, 4)
    assert (rejected.state, rejected.outcome, rejected.dead_letter) == (State.DONE, "dead-letter", 0)
    assert rejected.failure is not None
    assert "no order" in rejected.failure.message
    assert (waiting.state, waiting.attempt) == (State.WAITING, 2)
    failure = waiting.failure
    assert failure is not None
    assert (failure.reason, failure.component, failure.message) == ("failed", "ship", "sold out")
    assert (held.state, held.attempt, [each.component for each in held.components]) == (State.OPEN, 1, ["ship"])
    assert held.since_ms is not None
    assert held.components[0].since_ms >= held.since_ms - 1_000
    assert (unread.state, unread.ahead, unread.root) == (State.UNREAD, 1, None)


def test_the_page_the_dashboard_and_the_command_show_the_same(shop: Source) -> None:
    may_be_refunded = names_of("docs/how-to/find-a-message.md")["may_be_refunded"]
    refunds = {key: may_be_refunded(key, shop.bootstrap, shop.name) for key in ("fail-0-3", "bad-0-2", "ok-0-0")}
    assert refunds == {"fail-0-3": True, "bad-0-2": True, "ok-0-0": False}

    with closing(DashboardSource(shop.bootstrap)) as source:
        for key, position in (("hold-1-0", None), (None, f"{shop.source}/1/0")):
            (message,) = source.message(shop.name, key, position)["messages"]
            assert (message["state"], message["key"], message["offset"]) == ("open", "hold-1-0", 0)
        with pytest.raises(StatusError, match="name the message by one of"):
            source.message(shop.name, "hold-1-0", "1/0")

    run: Acker = partial(call_acker, "status", shop.name, servers=shop.servers)
    held = run("--key", "hold-1-0", "--json")
    (message,) = json.loads(held.stdout)["messages"]
    assert (held.returncode, message["state"], message["components"][0]["component"]) == (3, "open", "ship")
    assert (message["topic"], message["partition"], message["offset"]) == (shop.source, 1, 0)
    text = run("--key-hex", b"fail-0-3".hex())
    assert text.returncode == 3
    for part in (f"{shop.source}[0] offset 3", "waiting for a retry: attempt 2 failed", "sold out"):
        assert part in text.stdout
    assert run("--offset", f"{shop.source}/0/0").returncode == 0
    assert run("--offset", "0/2").returncode == 4
    assert "has no message with key ORDER-4711" in one_line(run("--key", "ORDER-4711"))
    assert "the offsets of" in one_line(run("--offset", "0/99"))

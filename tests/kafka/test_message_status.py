"""`acker status` on a real broker: messages that are done, open, waiting, dead letters, skipped and not read."""

import json
import uuid
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any, Final

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from inspection.dashboard.source import Source
from inspection.errors import StatusError
from inspection.message_status import MessageStatus, State, StatusReader, status
from spout_sdk import (
    BasicBolt,
    BasicCollector,
    Bolt,
    FailTupleError,
    InvalidMessageError,
    KafkaSpout,
    OutputCollector,
    RetryPolicy,
    TaskContext,
    TopologyBuilder,
    Tuple,
    declare,
)
from tests.kafka.sdk_rig import Cluster, InThreads, in_threads
from tests.pages import names_of
from tests.topics import create_topics
from tests.unit.cli.running import Acker, call_acker, one_line
from tests.waiting import eventually

READ_AHEAD: Final = 4
"""Offsets that a partition is read behind its first open message."""
MESSAGES: Final = ("ok", "skip", "bad", "fail", "ok"), ("hold", "ok", "ok", "ok", "late")
"""Values by partition; the key of each is `value-partition-offset`."""


def translate(record: Any) -> tuple[str] | None:
    value = record.value().decode()
    if value == "bad":
        raise InvalidMessageError("no order")
    return None if value == "skip" else (value,)


class Pack(BasicBolt):
    streams = (declare({"value": str}),)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        collector.emit((tuple_["value"],))


class Ship(Bolt):
    """Never acks `hold`, and fails `fail`."""

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self._collector = collector

    def execute(self, tuple_: Tuple) -> None:
        if tuple_["value"] == "fail":
            raise FailTupleError("sold out")
        if tuple_["value"] != "hold":
            self._collector.ack(tuple_)


class Shop(Cluster):
    """The topology, with two partitions of its source; each message's second failure waits for ten minutes."""

    def __init__(self, servers: str, *, outcomes: bool) -> None:
        unique = uuid.uuid4().hex[:8]
        self.source, self.outcomes = f"orders-{unique}", f"outcomes-{unique}" if outcomes else None
        spout = KafkaSpout(
            self.source,
            translate=translate,
            retry=RetryPolicy(initial_delay=0.0, delay_period=300.0, max_delay=600.0),
            outcomes=self.outcomes,
            max_uncommitted_offsets=READ_AHEAD,
        )
        builder = TopologyBuilder(f"shop-{unique}", ack_partitions=2, message_timeout=120.0)
        builder.set_spout("orders", spout)
        builder.set_bolt("pack", Pack).shuffle_grouping("orders")
        builder.set_bolt("ship", Ship).shuffle_grouping("pack")
        self.topology = builder.build()
        super().__init__(servers, self.topology.manifest)
        topics = [NewTopic(self.source, len(MESSAGES), 1), *([NewTopic(self.outcomes, 2, 1)] if self.outcomes else [])]
        create_topics(self.bootstrap, topics)
        self.create_topics()
        producer = Producer(self.bootstrap)
        for partition, values in enumerate(MESSAGES):
            for offset, value in enumerate(values):
                producer.produce(self.source, value, f"{value}-{partition}-{offset}", partition=partition)
        assert producer.flush(60) == 0

    def await_state(self, running: InThreads) -> None:
        """Waits until nothing changes any more."""
        acked = sum(value == "ok" for values in MESSAGES for value in values)
        eventually(lambda: running.stats["orders"].acked == acked, "all acks that there will be", 60)

        def is_quiet() -> bool:
            with StatusReader(self.bootstrap, self.manifest) as reader:
                (failing,) = reader.of_position("0/3")
                (later,) = reader.of_position("1/3")
            return failing.state is State.WAITING and failing.attempt == 2 and later.is_done

        eventually(is_quiet, "two failures and all acks committed", 60)


@pytest.fixture(scope="module", params=[True, False], ids=["outcomes", "no outcomes"])
def shop(request: pytest.FixtureRequest, bootstrap_servers: str) -> Iterator[Shop]:
    shop = Shop(bootstrap_servers, outcomes=request.param)
    with in_threads(shop.topology, shop.bootstrap) as running:
        shop.await_state(running)
        yield shop


def test_the_status_of_each_message(shop: Shop) -> None:
    def of(partition: int, offset: int) -> MessageStatus:
        return status(shop.topology.name, shop.bootstrap, offset=f"{partition}/{offset}")

    knows = shop.outcomes is not None
    for done in (of(0, 0), of(0, 4), of(1, 3)):
        assert (done.state, done.outcome, done.attempt) == (
            State.DONE,
            "acked" if knows else None,
            1 if knows else None,
        )
    assert of(0, 1).outcome == ("skipped" if knows else None)
    rejected = of(0, 2)
    assert (rejected.state, rejected.outcome, rejected.dead_letter) == (State.DONE, "dead-letter", 0)
    assert rejected.failure is not None
    assert "no order" in rejected.failure.message
    waiting = of(0, 3)
    assert (waiting.state, waiting.attempt) == (State.WAITING, 2)
    assert waiting.failure is not None
    assert (waiting.failure.reason, waiting.failure.component, waiting.failure.message) == (
        "failed",
        "ship",
        "sold out",
    )
    held = of(1, 0)
    assert (held.state, held.attempt, [each.component for each in held.components]) == (State.OPEN, 1, ["ship"])
    assert held.since_ms is not None
    assert held.components[0].since_ms >= held.since_ms - 1_000
    unread = of(1, 4)
    assert (unread.state, unread.ahead, unread.root) == (State.UNREAD, 1, None)


def test_the_program_of_the_page(shop: Shop) -> None:
    may_be_refunded = names_of("docs/how-to/find-a-message.md")["may_be_refunded"]
    refunds = {
        key: may_be_refunded(key, shop.bootstrap, shop.topology.name) for key in ("fail-0-3", "bad-0-2", "ok-0-0")
    }
    assert refunds == {"fail-0-3": True, "bad-0-2": True, "ok-0-0": False}


def test_the_dashboard_shows_what_the_command_prints(shop: Shop) -> None:
    with closing(Source(shop.bootstrap)) as source:
        for key, position in (("hold-1-0", None), (None, f"{shop.source}/1/0")):
            (message,) = source.message(shop.topology.name, key, position)["messages"]
            assert (message["state"], message["key"], message["offset"]) == ("open", "hold-1-0", 0)
        with pytest.raises(StatusError, match="name the message by one of"):
            source.message(shop.topology.name, "hold-1-0", "1/0")


def test_the_command(shop: Shop, bootstrap_servers: str) -> None:
    run: Acker = partial(call_acker, "status", shop.topology.name, servers=bootstrap_servers)
    held = run("--key", "hold-1-0", "--json")
    (message,) = json.loads(held.stdout)["messages"]
    assert (held.returncode, message["state"], message["components"][0]["component"]) == (3, "open", "ship")
    assert (message["topic"], message["partition"], message["offset"]) == (shop.source, 1, 0)
    text = run("--key-hex", b"fail-0-3".hex())
    assert text.returncode == 3
    assert f"{shop.source}[0] offset 3" in text.stdout
    assert "waiting for a retry: attempt 2 failed" in text.stdout
    assert "sold out" in text.stdout
    assert run("--offset", f"{shop.source}/0/0").returncode == 0
    assert run("--offset", "0/2").returncode == 4
    missing = run("--key", "ORDER-4711")
    assert missing.returncode == 1
    assert "has no message with key ORDER-4711" in one_line(missing)
    assert "the offsets of" in one_line(run("--offset", "0/99"))

"""Waits beyond a client's limits: a long `execute`, and a broker that is down."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from local_kafka import LocalKafka
from spout_sdk import OutputCollector, Tuple
from tests.contract.components import alone
from tests.contract.real import RealWorld
from tests.kafka.kill_rig import Start
from tests.kafka.sdk_rig import acking
from tests.waiting import eventually

pytestmark = pytest.mark.exhaustive


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LocalKafka]:
    with LocalKafka(data_dir=tmp_path / "broker") as kafka:
        yield kafka


def test_a_bolt_that_exceeds_the_poll_interval_loses_its_task_and_no_message(bootstrap_servers: str) -> None:
    world, held, gate = RealWorld(bootstrap_servers), threading.Event(), threading.Event()

    def hold_once(tuple_: Tuple, collector: OutputCollector) -> None:
        if not held.is_set():
            held.set()
            assert gate.wait(120)
        collector.ack(tuple_)

    builder = world.builder()
    messages, _ = alone(builder, hold_once)
    messages.add("slow")
    with world.run(builder.build(), **{"session.timeout.ms": 6_000, "max.poll.interval.ms": 6_000}) as running:
        running.eventually(held.is_set, "the call that takes too long")
        running.start("bolt")
        messages.add("next")
        running.eventually(lambda: sorted(messages.acked_ids) == ["next", "slow"], "both, by another process")
        gate.set()
        messages.add("last")
        running.eventually(lambda: "last" in messages.acked_ids, "a message after it came back")
        assert not messages.failed
    assert sorted(messages.acked_ids) == ["last", "next", "slow"]


def test_an_outage_beyond_the_delivery_timeout_stops_no_topology(broker: LocalKafka, start: Start) -> None:
    run = start("at_least_once", servers=broker.bootstrap_servers, **{"message.timeout.ms": 3_000})
    with acking(run.cluster), run.runner:
        run.flows()
        broker.kill()
        eventually(lambda: any("was not delivered" in each.error for each in run.exits), "a process to end", 90)
        broker.start()
        run.flows()
        assert run.results().keys() <= run.expected().keys()

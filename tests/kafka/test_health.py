"""The verdict on topologies on a real Kafka, as `acker top` and the dashboard have it.

None in a healthy minute, and within 30 s the right one first in incidents that need processes of their own. All ten are
staged in `tests/unit/inspection/health/test_incidents.py`.
"""

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, Final

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from acker_worker.worker import AckerWorker, WorkerSettings
from inspection.health.findings import Finding
from inspection.observer import Observer
from kafka_clients.catalogue import Catalogue
from spout_sdk import BasicBolt, BasicCollector, KafkaSpout, TopologyBuilder, Tuple, declare
from tests.kafka.sdk_rig import Cluster, InThreads, Threaded
from tests.topics import create_topics
from tests.waiting import eventually

pytestmark = pytest.mark.exhaustive

DETECTED_SECONDS: Final = 30.0
HEALTHY_SECONDS: Final = 60.0
SETTLED_SECONDS: Final = 16.0
"""From then on a process counts as started, and lags are known."""
A_SECOND: Final = 50


class Price(BasicBolt):
    """Calls a service for each order."""

    streams = (declare({"value": str}),)
    service: Callable[[str], object] = staticmethod(lambda _order: None)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        type(self).service(tuple_["value"])
        collector.emit((tuple_["value"],))


class Book(BasicBolt):
    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        pass


class Shop:
    """A running topology with a source of this number of orders a second, and an observer of it."""

    def __init__(self, servers: str) -> None:
        name = f"shop-{uuid.uuid4().hex[:8]}"
        builder = TopologyBuilder(name, ack_partitions=2)
        builder.set_spout("orders", KafkaSpout(f"{name}-orders"))
        builder.set_bolt("price", Price, tasks=2).shuffle_grouping("orders")
        builder.set_bolt("book", Book).shuffle_grouping("price")
        self.topology = builder.build()
        self.cluster = Cluster(servers, self.topology.manifest)
        self.cluster.create_topics()
        create_topics(self.cluster.bootstrap, [NewTopic(f"{name}-orders", 2, 1)])
        Catalogue(self.cluster.bootstrap).publish(self.topology.manifest)
        users = dict.fromkeys(("orders", "price", "book"), self.cluster.bootstrap)
        self.components = InThreads(self.topology, users)
        worker = AckerWorker(name, self.cluster.bootstrap, WorkerSettings(commit_interval_s=0.2))
        self.acker = Threaded(worker)
        self._ended = threading.Event()
        self._feed = threading.Thread(target=self._write, args=(f"{name}-orders",), daemon=True)
        self._feed.start()
        eventually(lambda: self.components.stats["orders"].acked, "orders to be acked")
        self.observer = Observer(self.cluster.bootstrap, self.topology.manifest)
        self.observer.open()

    def findings(self) -> list[Finding]:
        self.observer.follow(0.5)
        return self.observer.findings(self.observer.snapshot())

    def healthy_for(self, seconds: float) -> list[Finding]:
        """All findings of some seconds."""
        end, found = time.monotonic() + seconds, list[Finding]()
        while time.monotonic() < end:
            found += self.findings()
        return found

    def close(self) -> None:
        Price.service = staticmethod(lambda _order: None)
        self._ended.set()
        self._feed.join()
        self.observer.close()
        self.acker.stop()
        self.components.stop()
        Catalogue(self.cluster.bootstrap).withdraw(self.topology.name)

    def _write(self, topic: str) -> None:
        producer, number = Producer(self.cluster.bootstrap), 0
        while not self._ended.wait(1 / A_SECOND):
            producer.produce(topic, str(number), partition=number % 2)
            producer.poll(0)
            number += 1
        producer.flush(10)


@pytest.fixture
def shop(bootstrap_servers: str) -> Iterator[Shop]:
    with closing(Shop(bootstrap_servers)) as shop:
        assert shop.healthy_for(SETTLED_SECONDS) == []
        yield shop


def test_a_healthy_topology_has_no_finding(shop: Shop) -> None:
    assert shop.healthy_for(HEALTHY_SECONDS) == []


def refused(_order: str) -> None:
    raise ConnectionError("prices:443 refused the connection")


@pytest.mark.parametrize(
    ("incident", "check", "component"),
    [("down", "paused", "price"), ("slow", "slow", "price"), ("hangs", "execute", "price"), ("acker", "ackers", None)],
)
def test_the_cause_is_the_first_finding_within_30_seconds(
    shop: Shop, incident: str, check: str, component: str | None
) -> None:
    released, calls = threading.Event(), dict[str, Callable[[str], Any]]()
    calls |= {"down": refused, "slow": lambda _order: released.wait(0.2), "hangs": lambda _order: released.wait(120)}
    began = time.monotonic()
    if incident == "acker":
        shop.acker.stop()
        shop.acker.join()
    else:
        Price.service = staticmethod(calls[incident])
    try:
        others: list[Finding] = []

        def is_found() -> bool:
            found = shop.findings()
            if found and found[0].check != check:
                others.append(found[0])
            return bool(found) and (found[0].check, found[0].component) == (check, component)

        eventually(is_found, f"{check} of {component}", DETECTED_SECONDS)
        assert time.monotonic() - began < DETECTED_SECONDS
        assert {each.component for each in others} <= {component}, others
    finally:
        released.set()
        Price.service = staticmethod(lambda _order: None)

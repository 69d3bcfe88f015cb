"""The contract's world for real: a Kafka, acker workers, and a `ComponentRunner` for each component."""

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from acker_worker.worker import AckerWorker, WorkerSettings
from kafka_clients.catalogue import Catalogue
from spout_sdk import ComponentRunner, Stats, Topology, TopologyBuilder
from tests.contract.world import Read, Running
from tests.kafka.sdk_rig import Cluster, Threaded, value
from tests.waiting import eventually

T = TypeVar("T")

MEMBER = {"session.timeout.ms": 45_000, "heartbeat.interval.ms": 500}
"""Threads leave their groups in order, and must stay members on a busy machine; a heartbeat detects a rebalance."""


class Real(Running):
    """A topology on a real Kafka.

    Attributes:
        cluster: its topics.
        runners: component → its runner, the one that was started first.
        threads: the same for the threads that they run in.
    """

    def __init__(self, topology: Topology, cluster: Cluster, kafka: Mapping[str, Any]) -> None:
        self._topology = topology
        self.cluster = cluster
        self._kafka = {**cluster.bootstrap, **MEMBER, **kafka}
        self._running: list[Threaded] = []
        self.runners: dict[str, ComponentRunner] = {}
        self.threads: dict[str, Threaded] = {}
        for name in topology.factories:
            self.runners[name], self.threads[name] = self.start(name)
        if topology.manifest.acking:
            worker = AckerWorker(topology.name, self._kafka, WorkerSettings(commit_interval_s=0.2))
            self._running.append(Threaded(worker))

    @property
    def topology(self) -> Topology:
        return self._topology

    def eventually(self, condition: Callable[[], T], what: str) -> T:
        return eventually(condition, what)

    def let_pass(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        eventually(lambda: time.monotonic() >= end, f"{seconds} s to pass")

    def records(self, topic: str) -> list[Read]:
        found = []
        for record in self.cluster.records(topic):
            key, headers = record.key(), record.headers() or []
            assert key is None or isinstance(key, bytes)
            assert isinstance(headers, list)
            named = tuple((name, message) for name, message in headers if isinstance(message, bytes))
            at = (record.partition() or 0, record.offset() or 0)
            found.append(Read(*at, key, value(record), named, record.timestamp()[0]))
        return found

    def append(self, topic: str, partition: int, value: bytes, headers: list[tuple[str, bytes]]) -> None:
        self.cluster.produce(topic, partition, value, [*headers])

    def committed(self, bolt: str) -> dict[int, int]:
        return {task: committed for task, (committed, _) in self.cluster.progress(bolt).items()}

    def stats(self, component: str) -> Stats:
        return self.runners[component].stats

    def start(self, component: str) -> tuple[ComponentRunner, Threaded]:
        """Starts a component once more, as another process of it."""
        runner = ComponentRunner(self._topology, component, self._kafka)
        thread = Threaded(runner)
        self._running.append(thread)
        return runner, thread

    def stop(self) -> None:
        for each in self._running:
            each.stop()
        for each in self._running:
            each.join()


class RealWorld:
    """Topologies on a Kafka.

    Args:
        bootstrap_servers: of the Kafka.
    """

    def __init__(self, bootstrap_servers: str) -> None:
        self._servers = bootstrap_servers

    def builder(self, **settings: Any) -> TopologyBuilder:
        return TopologyBuilder(f"contract-{uuid.uuid4().hex[:12]}", **settings)

    def cluster(self, topology: Topology) -> Cluster:
        """The topics of a topology, made and published."""
        cluster = Cluster(self._servers, topology.manifest)
        catalogue = Catalogue(cluster.bootstrap)
        catalogue.create_topics(topology.manifest)
        catalogue.publish(topology.manifest)
        return cluster

    @contextmanager
    def run(self, topology: Topology, **kafka: Any) -> Iterator[Real]:
        real = Real(topology, self.cluster(topology), kafka)
        try:
            yield real
        finally:
            real.stop()
            Catalogue(real.cluster.bootstrap).withdraw(topology.name)

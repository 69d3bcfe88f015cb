"""The contract's world for real: a Kafka, with acker workers and components in threads."""

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from spout_sdk import Stats, Topology, TopologyBuilder
from tests.contract.world import Read, Running
from tests.kafka.sdk_rig import Cluster, InThreads, in_threads, value
from tests.waiting import eventually

T = TypeVar("T")


class Real(Running):
    """A topology on a real Kafka; `start`, `runners` and `threads` are those of `InThreads`."""

    def __init__(self, cluster: Cluster, running: InThreads) -> None:
        self.topology, self.cluster = running.topology, cluster
        self.start, self.runners, self.threads = running.start, running.runners, running.threads

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


class RealWorld:
    """Topologies on a Kafka."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._servers = bootstrap_servers

    def builder(self, **settings: Any) -> TopologyBuilder:
        return TopologyBuilder(f"contract-{uuid.uuid4().hex[:12]}", **settings)

    def cluster(self, topology: Topology) -> Cluster:
        """The topics of a topology."""
        cluster = Cluster(self._servers, topology.manifest)
        cluster.create_topics()
        return cluster

    @contextmanager
    def run(self, topology: Topology, **kafka: Any) -> Iterator[Real]:
        cluster = self.cluster(topology)
        with in_threads(topology, {**cluster.bootstrap, **kafka}) as running:
            yield Real(cluster, running)

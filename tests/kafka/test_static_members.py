"""Static members of a group, by the slot of a process, or by `group.instance.id` among the Kafka settings."""

import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from acker_worker.stats import WorkerStats
from acker_worker.worker import AckerWorker
from kafka_clients.catalogue import Catalogue
from spout_sdk import (
    BasicBolt,
    BasicCollector,
    ComponentRunner,
    Spout,
    Stats,
    Topology,
    TopologyBuilder,
    Tuple,
    declare,
)
from tests.kafka.sdk_rig import Cluster, Service, Threaded
from tests.waiting import eventually

LONG_SESSION_MS = 200_000


class Silent(Spout):
    streams = (declare({"number": int}),)

    def next_tuple(self) -> None:
        """Emits nothing."""


class Ignore(BasicBolt):
    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        """Does nothing."""


@pytest.fixture
def topology() -> Topology:
    builder = TopologyBuilder(f"static-{uuid.uuid4().hex[:8]}", guarantee="exactly_once", ack_partitions=2)
    builder.set_spout("numbers", Silent)
    builder.set_bolt("ignore", Ignore, tasks=2).shuffle_grouping("numbers")
    return builder.build()


@pytest.fixture
def kafka(bootstrap_servers: str, topology: Topology) -> dict[str, Any]:
    """With a session that is longer than the test, so that no timeout can have moved anything."""
    cluster = Cluster(bootstrap_servers, topology.manifest)
    cluster.create_topics()
    Catalogue(cluster.kafka).publish(topology.manifest)
    return {**cluster.kafka, "session.timeout.ms": LONG_SESSION_MS}


class Member:
    """A process that fills a slot, in a thread."""

    def __init__(self, make: Callable[..., Service], slot: str) -> None:
        self._held = 0
        self._fails = False
        service = make(self._on_stats, slot)
        self._thread = Threaded(service)
        eventually(lambda: self._held == 2, f"both partitions in slot {slot}", 60)

    def _on_stats(self, stats: Stats | WorkerStats) -> None:
        self._held = len(stats.tasks) if isinstance(stats, Stats) else stats.partitions
        if self._fails:
            self._fails = False
            raise RuntimeError("fails")

    def fail(self) -> None:
        self._fails = True
        assert self._thread.last_words() == "fails"

    def stop(self) -> None:
        self._thread.stop()
        self._thread.join()


def component(topology: Topology, kafka: dict[str, Any], on_stats: Any, slot: str) -> Service:
    return ComponentRunner(topology, "ignore", kafka, on_stats=on_stats, slot=slot)


def acker(topology: Topology, kafka: dict[str, Any], on_stats: Any, slot: str) -> Service:
    return AckerWorker(topology.name, kafka, on_stats=on_stats, instance=slot)


@pytest.mark.parametrize("kind", [component, acker])
def test_a_successor_has_what_its_slot_held_at_once_and_a_clean_stop_leaves_at_once(
    topology: Topology, kafka: dict[str, Any], kind: Callable[..., Service]
) -> None:
    make = partial(kind, topology, kafka)
    Member(make, "one").fail()
    Member(make, "one").stop()
    Member(make, "two").stop()


def test_a_users_successor_gets_the_tasks_immediately_and_fences_its_predecessor(
    topology: Topology, kafka: dict[str, Any]
) -> None:
    kafka["group.instance.id"] = "one"
    first, second = (ComponentRunner(topology, "ignore", kafka) for _ in range(2))
    predecessor = Threaded(first)
    eventually(lambda: len(first.stats.tasks) == 2, "the tasks of the first")
    successor = Threaded(second)
    eventually(lambda: len(second.stats.tasks) == 2, "the tasks of the second")
    assert "Static consumer fenced by other consumer with same group.instance.id" in predecessor.last_words()
    successor.stop()
    successor.join()

"""Static members of a group, by the slot of a process, or by `group.instance.id` among the Kafka settings."""

import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from acker_worker.service import AckerService
from acker_worker.stats import WorkerStats
from acker_worker.worker import AckerWorker
from kafka_clients.catalogue import Catalogue
from kafka_clients.client_settings import for_group
from kafka_clients.group_consumer import GroupConsumer
from spout_sdk import Topology, TopologyBuilder, declare
from spout_sdk.errors import BrokerError
from spout_sdk.runtime import ComponentRunner
from spout_sdk.statistics import Stats
from tests.components import Sink, source
from tests.kafka.sdk_rig import Cluster, Service, Threaded
from tests.waiting import eventually
from tuple_tree.names import acker_group, tuples_topic

LONG_SESSION_MS = 200_000


@pytest.fixture
def topology() -> Topology:
    builder = TopologyBuilder(f"static-{uuid.uuid4().hex[:8]}", guarantee="exactly_once", ack_partitions=2)
    builder.set_spout("numbers", source(declare({"number": int})))
    builder.set_bolt("ignore", Sink, tasks=2).shuffle_grouping("numbers")
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
        assert self._thread.wait_for_error() == "fails"

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
    assert "Static consumer fenced by other consumer with same group.instance.id" in predecessor.wait_for_error()
    successor.stop()
    successor.join()


def test_an_acker_worker_of_all_topologies_has_its_name_in_each_group(
    topology: Topology, kafka: dict[str, Any]
) -> None:
    # It serves the topologies of other tests as well: their partitions must not wait for a long session.
    service = Threaded(AckerService({**kafka, "session.timeout.ms": 6_000}, instance="one"))
    group = Group(kafka, acker_group(topology.name))
    eventually(lambda: group.instances() == ["one"], "the worker in its group")
    service.stop()
    service.join()
    eventually(lambda: group.instances() == [], "that it has left")


def test_a_member_that_stops_before_its_first_join_is_answered_leaves_its_group(
    topology: Topology, kafka: dict[str, Any]
) -> None:
    topic = tuples_topic(topology.name, "ignore")
    # It joins again at a heartbeat: until then, the broker answers no other member.
    first = Reader({**kafka, "heartbeat.interval.ms": 1_000}, topic, "one")
    eventually(lambda: first.holds(2), "both partitions")
    group = Group(kafka, f"readers-{topic}")
    second = Reader(kafka, topic, "two")
    eventually(lambda: group.instances() == ["one", "two"], "the join of the second")
    first.goes_on.set()
    second.member.leave()
    second.member.close()
    eventually(lambda: group.instances() == ["one"] and first.holds(2), "that the second has left")
    first.member.close()


class Group:
    """A consumer group, as its broker describes it."""

    def __init__(self, kafka: dict[str, Any], name: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": kafka["bootstrap.servers"]})
        self._name = name

    def instances(self) -> list[str]:
        described = self._admin.describe_consumer_groups([self._name])[self._name].result(60)
        return sorted(str(member.group_instance_id) for member in described.members)


class Reader:
    """A static member that counts its partitions, and can be held up while it gives some up."""

    def __init__(self, kafka: dict[str, Any], topic: str, slot: str) -> None:
        self._held: set[int] = set()
        self.gives_up = threading.Event()
        self.goes_on = threading.Event()
        self.member = GroupConsumer(for_group(kafka, f"readers-{topic}", slot), topic, slot)
        self.member.subscribe(topic, self._assign, self._revoke, self._lose)

    def holds(self, count: int) -> bool:
        self.member.read(1, 0.1)
        return len(self._held) == count

    def _assign(self, partitions: list[TopicPartition]) -> None:
        self._held |= {each.partition for each in partitions}

    def _revoke(self, partitions: list[TopicPartition]) -> None:
        self.gives_up.set()
        assert self.goes_on.wait(60)
        self._lose(partitions)

    def _lose(self, partitions: list[TopicPartition]) -> None:
        self._held -= {each.partition for each in partitions}


def test_the_partitions_that_a_member_gives_up_while_it_is_killed_have_an_owner(
    topology: Topology, kafka: dict[str, Any]
) -> None:
    topic = tuples_topic(topology.name, "ignore")
    killed = Reader(kafka, topic, "one")
    eventually(lambda: killed.holds(2), "both partitions")
    other = Reader(kafka, topic, "two")

    def give_up() -> None:
        with suppress(BrokerError):  # when it continues, its successor has fenced it
            eventually(lambda: killed.holds(1), "one partition")

    thread = threading.Thread(target=give_up)
    thread.start()
    eventually(lambda: other.holds(0) and killed.gives_up.is_set(), "that it gives up a partition")
    successor = Reader(kafka, topic, "one")
    eventually(lambda: successor.holds(1) and other.holds(1), "one partition each", 30)
    killed.goes_on.set()
    thread.join()
    for each in (killed, other, successor):
        each.goes_on.set()
        each.member.close()

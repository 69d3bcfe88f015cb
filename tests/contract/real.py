"""The contract's world for real: a Kafka, with acker workers and components in threads."""

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest
from confluent_kafka import (
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from kafka_clients import group_consumer, producer
from kafka_clients.catalogue import Catalogue
from spout_sdk import Topology, TopologyBuilder
from spout_sdk.state import StateView
from spout_sdk.statistics import Stats
from tests.contract.lives import Step, mortal_consumer, mortal_producer
from tests.contract.world import Read, Running
from tests.kafka.sdk_rig import Cluster, InThreads, in_threads
from tests.waiting import eventually
from tuple_tree.control import Control, ControlState
from tuple_tree.names import component_group, tuples_topic

T = TypeVar("T")


class Real(Running):
    """A topology on a real Kafka; `start`, `runners` and `threads` are those of `InThreads`."""

    def __init__(self, cluster: Cluster, running: InThreads) -> None:
        self.topology, self.cluster, self._running, self.deaths = running.topology, cluster, running, 0
        self.start, self.runners, self.threads = running.start, running.runners, running.threads
        self._reader = Reader(cluster.bootstrap)
        self._members: dict[str, Consumer] = {}  # by group; they do not join it
        self._producer = Producer(cluster.bootstrap)

    def eventually(self, condition: Callable[[], T], what: str) -> T:
        def look() -> T:
            self._replace_dead()
            return condition()

        return eventually(look, what)

    def _replace_dead(self) -> None:
        for name in [name for name, thread in self.threads.items() if thread.life.is_dead]:
            self.deaths += 1
            self._running.replace(name, in_order=False)

    def let_pass(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        self.eventually(lambda: time.monotonic() >= end, f"{seconds} s to pass")

    def records(self, topic: str) -> list[Read]:
        return self._reader.read(topic)

    def append(self, topic: str, partition: int, value: bytes, headers: list[tuple[str, bytes]]) -> None:
        self._producer.produce(topic, value, partition=partition, headers=[*headers])
        assert self._producer.flush(60) == 0

    def committed(self, bolt: str) -> dict[int, int]:
        tasks = self.topology.manifest.component(bolt).tasks
        return {**dict.fromkeys(range(tasks), 0), **self._committed(bolt, tuples_topic(self.topology.name, bolt))}

    def lag(self, component: str) -> int:
        topics = self.topology.kafka_sources.get(component, (tuples_topic(self.topology.name, component),))
        left = 0
        for topic in topics:
            committed = self._committed(component, topic)
            left += sum(record.offset >= committed.get(record.partition, 0) for record in self.records(topic))
        return left

    def _committed(self, component: str, topic: str) -> dict[int, int]:
        group = component_group(self.topology.name, component)
        if group not in self._members:
            # Requests of an admin client for a group may abort the process.
            self._members[group] = Consumer({**self.cluster.bootstrap, "group.id": group})
        partitions = [TopicPartition(topic, partition) for partition in self._reader.partitions(topic)]
        found = self._members[group].committed(partitions, timeout=60)
        return {each.partition: each.offset for each in found if each.offset >= 0}

    def state(self, bolt: str) -> dict[Any, Any]:
        with StateView(self.topology.name, bolt, self.cluster.bootstrap) as view:
            view.refresh()
            return dict(view.items())

    def stats(self, component: str) -> Stats:
        return self.runners[component].stats

    def kill(self, component: str) -> None:
        self.threads[component].life.is_dead = True

    def kill_at(self, component: str, step: Step, after: int = 0) -> None:
        self.threads[component].life.arm(step, after)

    def restart(self, component: str) -> None:
        self.threads[component].stop()
        self._running.replace(component, in_order=True)

    def pause(self, component: str) -> None:
        self.threads[component].life.pause()

    def resume(self, component: str) -> None:
        self.threads[component].life.resume()

    def request(self, state: ControlState) -> None:
        Catalogue(self.cluster.bootstrap).set_control(self.topology.name, Control(state))

    def end(self) -> None:
        """Lets all end in order."""
        self._replace_dead()
        for thread in self.threads.values():
            thread.life.resume()
        self._reader.close()
        for client in self._members.values():
            client.close()


class Reader:
    """Reads topics; what it has read once stays read."""

    def __init__(self, kafka: Mapping[str, Any]) -> None:
        settings = {"enable.auto.commit": False, "enable.partition.eof": True, "fetch.wait.max.ms": 10}
        self._client = Consumer({**kafka, "group.id": "reader", **settings})
        self._found: dict[str, dict[int, list[Read]]] = {}
        self._at: dict[tuple[str, int], int] = {}

    def read(self, topic: str) -> list[Read]:
        """All records, up to the end of each partition."""
        self.partitions(topic)
        ends = eventually(lambda: self._ends(topic), f"a leader of each partition of {topic}")

        def is_read() -> bool:
            while any(self._at[topic, partition] < end for partition, end in ends.items()):
                if (message := self._client.poll(0.5)) is None:
                    return False
                self._take(message)
            return True

        eventually(is_read, f"the end of {topic}")
        return [record for records in self._found[topic].values() for record in records]

    def partitions(self, topic: str) -> list[int]:
        """The partitions of a topic, which it reads from now on."""
        if topic not in self._found:
            partitions = sorted(self._client.list_topics(topic, timeout=60).topics[topic].partitions)
            self._found[topic] = {partition: [] for partition in partitions}
            self._at.update(((topic, partition), 0) for partition in partitions)
            self._client.incremental_assign([TopicPartition(topic, partition, 0) for partition in partitions])
        return [*self._found[topic]]

    def _ends(self, topic: str) -> dict[int, int]:
        wanted = [TopicPartition(topic, partition, OFFSET_END) for partition in self._found[topic]]
        try:
            return {each.partition: each.offset for each in self._client.offsets_for_times(wanted, timeout=60)}
        except KafkaException as error:
            # A topic was created a moment before, or its client has just learnt of the broker's name.
            if error.args[0].code() not in (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError._DESTROY_BROKER):
                raise
            return {}

    def _take(self, message: Message) -> None:
        topic, partition, offset = message.topic() or "", message.partition() or 0, message.offset() or 0
        if (error := message.error()) is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            self._at[topic, partition] = offset
            return
        self._at[topic, partition] = offset + 1
        key, value, headers = message.key(), message.value(), message.headers() or []
        assert not isinstance(key, str)
        assert not isinstance(value, str)
        assert isinstance(headers, list)
        named = tuple((name, content) for name, content in headers if isinstance(content, bytes))
        self._found[topic][partition].append(Read(partition, offset, key, value, named, message.timestamp()[0]))

    def close(self) -> None:
        self._client.close()


class RealWorld:
    """Topologies on a Kafka; with `has_slots`, a process takes the place of one that was killed at once."""

    def __init__(self, bootstrap_servers: str, *, has_slots: bool = False) -> None:
        self._servers, self._has_slots = bootstrap_servers, has_slots

    def builder(self, **settings: Any) -> TopologyBuilder:
        return TopologyBuilder(f"contract-{uuid.uuid4().hex[:12]}", **settings)

    def cluster(self, topology: Topology, topics: Mapping[str, int] | None = None) -> Cluster:
        """The topics of a topology, and others."""
        cluster = Cluster(self._servers, topology.manifest)
        cluster.create_topics(topics)
        return cluster

    @contextmanager
    def run(self, topology: Topology, topics: Mapping[str, int] | None = None, **kafka: Any) -> Iterator[Real]:
        cluster = self.cluster(topology, topics)
        with in_threads(topology, {**cluster.bootstrap, **kafka}, has_slots=self._has_slots) as running:
            real = Real(cluster, running)
            try:
                yield real
            finally:
                real.end()


@contextmanager
def mortal_clients() -> Iterator[None]:
    """Within the block, processes can be killed and paused."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(producer, "Producer", mortal_producer(Producer))
        patch.setattr(group_consumer, "Consumer", mortal_consumer(Consumer))
        yield

"""Helpers of tests on a broker: the topics of a topology, and its components in threads."""

import json
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, Protocol

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from acker_worker.worker import AckerWorker, WorkerSettings
from kafka_clients.access import ACKER
from kafka_clients.catalogue import Catalogue
from kafka_clients.log_reader import watermarks
from spout_sdk import Topology, load_topology
from spout_sdk.runtime import ComponentRunner, TopologyRunner
from spout_sdk.statistics import Stats
from tests.contract.lives import Killed, Life, living
from tests.manifests import apart
from tests.topics import create_topics
from tests.waiting import eventually
from tuple_tree.manifest import Manifest
from tuple_tree.messages import AckBatch, decode_ack_batch
from tuple_tree.names import acks_topic, component_group, tuples_topic
from tuple_tree.topics import topic_specs

Headers = Sequence[tuple[str, str | bytes | None]]


class Cluster:
    """The topics of one topology on the broker."""

    def __init__(self, bootstrap_servers: str, manifest: Manifest) -> None:
        self.kafka: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            # So that the group soon gives the tasks of a killed process to another one.
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 500,
        }
        self.bootstrap: dict[str, Any] = {"bootstrap.servers": bootstrap_servers}
        self.manifest = manifest
        self._admin = AdminClient(self.bootstrap)

    @property
    def name(self) -> str:
        return self.manifest.topology

    @property
    def servers(self) -> str:
        return str(self.bootstrap["bootstrap.servers"])

    def create_topics(self, others: Mapping[str, int] | None = None) -> None:
        """Creates the topics of the topology, and others with these numbers of partitions."""
        existing = self._admin.list_topics(timeout=60).topics
        wanted = [
            NewTopic(spec.name, spec.partitions, 1, config=spec.config)
            for spec in topic_specs(self.manifest)
            if spec.name not in existing
        ]
        create_topics(self.bootstrap, [*wanted, *(NewTopic(name, n, 1) for name, n in (others or {}).items())])

    def delete_topic(self, topic: str) -> None:
        """Deletes a topic, and waits until it is gone."""
        self._admin.delete_topics([topic])[topic].result(60)
        eventually(lambda: topic not in self._admin.list_topics(timeout=60).topics, f"{topic} to be gone")

    def set_config(self, topic: str, key: str, value: str) -> None:
        """Changes a setting of a topic, and waits until it is in force."""
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        changed = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        for future in self._admin.incremental_alter_configs([changed]).values():
            future.result(60)

        def in_force() -> bool:
            (future,) = self._admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
            return bool(future.result(60)[key].value == value)

        eventually(in_force, f"{key} of {topic} in force")

    def records(self, topic: str) -> list[Message]:
        """Everything that is committed in a topic, partition by partition."""
        return records(self.bootstrap, topic)

    def batches(self) -> list[AckBatch]:
        return [decode_ack_batch(value(record)) for record in self.records(acks_topic(self.manifest.topology))]

    def progress(self, bolt: str) -> dict[int, tuple[int, int]]:
        """Task → committed offset and end of its inbox."""
        name = self.manifest.topology
        return progress(self.bootstrap, component_group(name, bolt), tuples_topic(name, bolt))

    def produce(
        self, topic: str, partition: int, value: bytes | None, headers: Headers = (), *, key: bytes | None = None
    ) -> None:
        """Writes a record, and waits until it is there."""
        producer = Producer(self.bootstrap)
        producer.produce(topic, value, key, partition=partition, headers=[*headers])
        assert producer.flush(60) == 0


def records(kafka: Mapping[str, Any], topic: str) -> list[Message]:
    """Everything that is committed in a topic, partition by partition."""
    # All partitions at once, and answers that wait for nothing more: what is there takes no time to read.
    settings = {"enable.auto.commit": False, "enable.partition.eof": True, "fetch.wait.max.ms": 10}
    consumer = Consumer({**kafka, "group.id": "reader", **settings})
    try:
        partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
        found: dict[int | None, list[Message]] = {partition: [] for partition in sorted(partitions)}
        unread = {*found}
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])

        def read() -> bool:
            while unread and (message := consumer.poll(0.5)) is not None:
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    unread.discard(message.partition())
                    continue
                assert error is None
                if message.partition() in unread:
                    found[message.partition()].append(message)
            return not unread

        eventually(read, f"the end of {topic}")
        return [message for messages in found.values() for message in messages]
    finally:
        consumer.close()


def progress(kafka: Mapping[str, Any], group: str, topic: str) -> dict[int, tuple[int, int]]:
    """Partition → the offset that a group has committed, 0 where there is none, and the end."""
    consumer = Consumer({**kafka, "group.id": group})
    try:
        partitions = sorted(consumer.list_topics(topic, timeout=60).topics[topic].partitions)
        committed = consumer.committed([TopicPartition(topic, partition) for partition in partitions], timeout=60)
        return {at.partition: (max(0, at.offset), watermarks(consumer, at, 60)[1]) for at in committed}
    finally:
        consumer.close()


def write(
    kafka: Mapping[str, Any],
    topic: str,
    values: Iterable[bytes | str | None],
    partitions: int = 1,
    headers: Headers = (),
    *,
    has_keys: bool = False,
) -> None:
    """Writes values round the partitions of a topic; if it `has_keys`, the value is also the key."""
    producer = Producer({**kafka, "linger.ms": 5})
    for number, each in enumerate(values):
        key = each if has_keys else None
        producer.produce(topic, each, key, number % partitions, headers=[*headers])
        if number % 10_000 == 9_999:
            assert producer.flush(60) == 0
    assert producer.flush(60) == 0


def write_in_transactions(
    kafka: Mapping[str, Any], topic: str, records: Iterable[tuple[bytes | str, bool]], headers: Headers = ()
) -> None:
    """Writes values to partition 0, each in a transaction of its own, which is committed or, if False, aborted."""
    producer = Producer({**kafka, "transactional.id": topic})
    producer.init_transactions(60)
    for each, commits in records:
        producer.begin_transaction()
        producer.produce(topic, each, partition=0, headers=[*headers])
        assert producer.flush(60) == 0
        (producer.commit_transaction if commits else producer.abort_transaction)(60)


class Service(Protocol):
    """A component, an acker worker, or one of all topologies."""

    def run(self) -> None: ...
    def stop(self) -> None: ...


class Threaded:
    """A service in a thread of the test, as if it were a process of its own.

    Attributes:
        error: what it raised.
        life: of the process.
    """

    def __init__(self, service: Service, name: str = "service") -> None:
        self.stop = service.stop
        self.error: BaseException | None = None
        self.life = Life(name)
        self._thread = threading.Thread(target=self._run, args=(service,), daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Waits for its end; raises its exception."""
        self._join()
        if self.error is not None:
            raise self.error

    def disconnect(self) -> None:
        """Waits until a process that was killed has ended, and closes its connections."""
        self.life.resume()
        self._join()
        assert self.error is None or isinstance(self.error, Killed), self.error
        while self.life.clients:
            self.life.clients.pop().disconnect()

    def wait_for_error(self) -> str:
        """Waits for its end; returns the text of its exception."""
        self._join()
        error, self.error = self.error, None
        assert error is not None
        return str(error)

    def _join(self) -> None:
        self._thread.join(120)
        assert not self._thread.is_alive()

    def _run(self, service: Service) -> None:
        try:
            with living(self.life):
                service.run()
        except BaseException as error:  # noqa: BLE001 - raised again by `join`
            self.error = error
        else:
            self.life.clients.clear()


QUICK: Final = WorkerSettings(commit_interval_s=0.2, stats_interval_s=0.05)
PATIENT: Final = {"log_level": 2, "session.timeout.ms": 45_000, "heartbeat.interval.ms": 500}
"""Threads leave their groups in order, and must stay members on a busy machine; a heartbeat detects a rebalance."""


class InThreads:
    """Components of a topology and an acker worker, all in threads of the test.

    Attributes:
        stats: component → what it reported last.
        runners: component → its runner, the one that was started first.
        threads: the same for the threads that they run in; and `acker` → that of the acker worker.
    """

    def __init__(self, topology: Topology, users: Mapping[str, Mapping[str, Any]], *, has_slots: bool = False) -> None:
        self.topology = topology
        self._users = {name: {**PATIENT, **settings} for name, settings in users.items()}
        heads = [name for name in users if name != ACKER]
        chained = [bolt.name for head in heads for bolt in topology.manifest.chained_to(head)]
        self.stats = {name: Stats(name) for name in (*heads, *chained)}
        self.runners: dict[str, ComponentRunner] = {}
        self.threads: dict[str, Threaded] = {}
        self._running: list[Threaded] = []
        for name in heads:
            slot = {"slot": name, "is_new_slot": True} if has_slots else {}
            self.runners[name], self.threads[name] = self.start(name, **slot)
        if ACKER in users:
            self.threads[ACKER] = self.start_acker()

    def start(self, component: str, **options: Any) -> tuple[ComponentRunner, Threaded]:
        """Starts a component, or once more, as another process of it."""
        runner = ComponentRunner(self.topology, component, self._users[component], on_stats=self._keep, **options)
        thread = Threaded(runner, component)
        self._running.append(thread)
        return runner, thread

    def start_acker(self) -> Threaded:
        """Starts an acker worker, or another one."""
        thread = Threaded(AckerWorker(self.topology.name, self._users[ACKER], QUICK), ACKER)
        self._running.append(thread)
        return thread

    def replace(self, name: str, *, in_order: bool) -> None:
        """Waits until a process has ended, in order or killed, and starts its successor in the same slot."""
        thread = self.threads[name]
        (thread.join if in_order else thread.disconnect)()
        self._running.remove(thread)
        if name == ACKER:
            self.threads[name] = self.start_acker()
        else:
            self.runners[name], self.threads[name] = self.start(name, slot=name)

    def stop(self) -> None:
        """Stops all; raises the exception of one of them."""
        for thread in self._running:
            thread.stop()
        for thread in self._running:
            thread.join()

    def _keep(self, stats: Stats) -> None:
        self.stats[stats.component] = stats


@contextmanager
def in_threads(
    topology: Topology,
    kafka: Mapping[str, Any],
    components: tuple[str, ...] | None = None,
    *,
    users: Mapping[str, Mapping[str, Any]] | None = None,
    has_slots: bool = False,
) -> Iterator[InThreads]:
    """Publishes a topology whose topics exist, and runs it with an acker worker; withdraws it at the end.

    Args:
        topology: as built.
        kafka: settings of all that is run.
        components: the ones to run; all unless given.
        users: component, or `acker` → settings, if each runs as a user of its own.
        has_slots: whether each process has a slot, which `replace` gives to its successor.
    """
    Catalogue(dict(kafka)).publish(topology.manifest)
    chosen = [each.name for each in topology.manifest.heads] if components is None else components
    acker = (ACKER,) if topology.manifest.acking else ()
    running = InThreads(topology, users or dict.fromkeys([*chosen, *acker], kafka), has_slots=has_slots)
    try:
        yield running
    finally:
        running.stop()
        Catalogue(dict(kafka)).withdraw(topology.name)


def acking(cluster: Cluster) -> AbstractContextManager[InThreads]:
    """An acker worker beside a topology that runs elsewhere."""
    return in_threads(Topology(cluster.manifest, {}), cluster.bootstrap, ())


class Source(Cluster):
    """A topology with its topics, and the topics that its spout reads.

    Args:
        bootstrap_servers: of the broker.
        topology: as built, or MODULE:TOPOLOGY.
        topics: topic → partitions, of the ones that it reads and of others; topics of outcomes are made as well.

    Attributes:
        source: the first of the topics.
    """

    def __init__(self, bootstrap_servers: str, topology: str | Topology, topics: Mapping[str, int]) -> None:
        self.reference = topology if isinstance(topology, str) else ""
        self.topology = load_topology(topology) if isinstance(topology, str) else topology
        super().__init__(bootstrap_servers, self.topology.manifest)
        self.topics = topics
        self.source = next(iter(topics), "")
        wanted = {**topics, **dict.fromkeys(self.manifest.outcome_topics.values(), 2)}
        create_topics(self.bootstrap, [NewTopic(name, n, 1) for name, n in wanted.items()])
        self.create_topics()

    @property
    def outcomes(self) -> list[Any]:
        """The outcomes of messages so far, which are JSON."""
        (topic,) = self.manifest.outcome_topics.values()
        return [json.loads(value(record)) for record in self.records(topic)]

    def feed(self, values: Iterable[str], topic: str | None = None) -> None:
        """Writes values round the partitions of a topic, the first one unless named."""
        name = topic or self.source
        write(self.bootstrap, name, values, self.topics[name])

    def source_progress(self) -> list[tuple[int, int]]:
        """The committed offset and the end of each partition that the spout reads."""
        group = component_group(self.name, self.manifest.spouts[0].name)
        found = (progress(self.bootstrap, group, topic) for topic in self.topics)
        return [each for of_topic in found for each in of_topic.values()]

    def await_all_committed(self, deadline_s: float = 90.0) -> None:
        def is_committed() -> bool:
            return all(committed == end for committed, end in self.source_progress())

        eventually(is_committed, "the group's offset at the end of all partitions", deadline_s)

    @contextmanager
    def processes(
        self, counts: Mapping[str, int] | None = None, workers: Sequence[Sequence[str]] | None = None, **options: Any
    ) -> Iterator[TopologyRunner]:
        """Runs it beside an acker worker until the end: each component in processes of its own, or in these workers."""
        chosen = workers or apart(self.manifest, counts)
        with acking(self), TopologyRunner(self.reference, self.kafka, chosen, **options) as runner:
            yield runner
            runner.stop()
            assert runner.wait(0)


MODULE: Final = "tests.kafka.topologies"


class Use(Protocol):
    """Gives a topology of `topologies` a fresh name, its topics, and source topics with these partitions."""

    def __call__(self, topology: str, *partitions: int, servers: str = ...) -> Source: ...


def value(record: Message) -> bytes:
    read = record.value()
    assert isinstance(read, bytes)
    return read


def headers_of(record: Message) -> dict[str, bytes]:
    read: dict[str, bytes] = {}
    for header in record.headers() or []:
        assert isinstance(header, tuple)
        assert isinstance(header[1], bytes)
        read[header[0]] = header[1]
    return read

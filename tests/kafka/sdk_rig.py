"""What the tests of the SDK share: topics of a topology, components in threads, a toy acker that keeps every edge."""

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
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
from spout_sdk import ComponentRunner
from tests.topics import create_topics
from tests.waiting import eventually
from tuple_tree.codec import decode_ack_batch, encode_notice_batch
from tuple_tree.manifest import Manifest
from tuple_tree.messages import AckBatch, FailReason, NoticeBatch, SpoutTask
from tuple_tree.names import acks_topic, component_group
from tuple_tree.topics import topic_specs
from tuple_tree.watermarks import watermarks


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

    def create_topics(self) -> None:
        existing = self._admin.list_topics(timeout=60).topics
        wanted = [
            NewTopic(spec.name, spec.partitions, 1, config=spec.config)
            for spec in topic_specs(self.manifest)
            if spec.name not in existing
        ]
        create_topics(self.bootstrap, wanted)

    def delete_topic(self, topic: str) -> None:
        for future in self._admin.delete_topics([topic]).values():
            future.result(60)

    def limit_records(self, topic: str, size: int) -> None:
        """Limits the size of a topic's records, and waits until the broker reports that."""
        entry = ConfigEntry("max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        for future in self._admin.incremental_alter_configs([resource]).values():
            future.result(60)

        def in_force() -> bool:
            described = ConfigResource(ResourceType.TOPIC, topic)
            (future,) = self._admin.describe_configs([described]).values()
            return bool(future.result(60)["max.message.bytes"].value == str(size))

        eventually(in_force, "the limit in force")

    def records(self, topic: str) -> list[Message]:
        """Everything that is committed in a topic, partition by partition."""
        # All partitions at once, and answers that wait for nothing more: what is there takes no time to read.
        settings = {"enable.auto.commit": False, "enable.partition.eof": True, "fetch.wait.max.ms": 10}
        consumer = Consumer({**self.bootstrap, "group.id": "reader", **settings})
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

    def batches(self) -> list[AckBatch]:
        return [decode_ack_batch(value(record)) for record in self.records(acks_topic(self.manifest.topology))]

    def progress(self, bolt: str) -> dict[int, tuple[int, int]]:
        """task → committed offset and end of its inbox."""
        topic = f"{self.manifest.topology}.tuples.{bolt}"
        tasks = self.manifest.component(bolt).tasks
        consumer = Consumer({**self.bootstrap, "group.id": component_group(self.manifest.topology, bolt)})
        try:
            committed = consumer.committed([TopicPartition(topic, task) for task in range(tasks)], timeout=60)
            return {
                position.partition: (
                    max(0, position.offset),
                    watermarks(consumer, TopicPartition(topic, position.partition), 60)[1],
                )
                for position in committed
            }
        finally:
            consumer.close()

    def produce(
        self, topic: str, partition: int, value: bytes | None, headers: list[tuple[str, str | bytes | None]]
    ) -> None:
        producer = Producer(self.bootstrap)
        producer.produce(topic, value, partition=partition, headers=headers)
        assert producer.flush(60) == 0


class Threaded:
    """A component or an acker worker in a thread of the test, as if it were a process of its own."""

    def __init__(self, service: ComponentRunner | AckerWorker) -> None:
        self.stop = service.stop
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(service,), daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Waits for its end; raises what it raised."""
        self._join()
        if self._error is not None:
            raise self._error

    def last_words(self) -> str:
        """Waits for its end; returns the text of what it raised."""
        self._join()
        error, self._error = self._error, None
        assert error is not None
        return str(error)

    def _join(self) -> None:
        self._thread.join(120)
        assert not self._thread.is_alive()

    def _run(self, service: ComponentRunner | AckerWorker) -> None:
        try:
            service.run()
        except BaseException as error:  # noqa: BLE001 - raised again by `join`
            self._error = error


@contextmanager
def acking(cluster: Cluster) -> Iterator[None]:
    """A real acker worker beside the topology."""
    # It must stay a member on a busy machine.
    worker = AckerWorker(
        cluster.manifest.topology,
        {**cluster.bootstrap, "session.timeout.ms": 45_000},
        WorkerSettings(commit_interval_s=0.2, stats_interval_s=0.05),
    )
    thread = Threaded(worker)
    try:
        yield
    finally:
        worker.stop()
        thread.join()


class Use(Protocol):
    """Gives a topology of a module a fresh name and its topics."""

    def __call__(self, topology: str, module: str = ...) -> Cluster: ...


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


class ToyAcker:
    """An acker in thirty lines of Python: no time-outs, no sessions, never forgets.

    Attributes:
        sums: root → XOR of everything heard.
        acked: roots that completed.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.sums: dict[int, int] = defaultdict(int)
        self.spouts: dict[int, SpoutTask] = {}
        self.failed: dict[int, str] = {}
        self.acked: set[int] = set()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "ToyAcker":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    @property
    def open(self) -> set[int]:
        """The roots whose sum is not zero."""
        # A copy, since the thread goes on.
        return {root for root, val in dict(self.sums).items() if val}

    def _run(self) -> None:
        topic = acks_topic(self._cluster.manifest.topology)
        producer = Producer({**self._cluster.bootstrap, "linger.ms": 0})
        consumer = Consumer({**self._cluster.bootstrap, "group.id": "toy", "enable.auto.commit": False})
        partitions = range(self._cluster.manifest.ack_partitions)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        try:
            while not self._stopping.is_set():
                message = consumer.poll(0.02)
                if message is not None:
                    assert message.error() is None
                    self._apply(decode_ack_batch(value(message)), producer)
                producer.poll(0)
        finally:
            consumer.close()
            producer.flush(60)

    def _apply(self, batch: AckBatch, producer: Producer) -> None:
        touched = set()
        for roots, vals in ((batch.init_roots, batch.init_vals), (batch.ack_roots, batch.ack_vals)):
            for root, val in zip(roots.tolist(), vals.tolist(), strict=True):
                self.sums[root] ^= val
                touched.add(root)
        if batch.spout is not None:
            self.spouts.update(dict.fromkeys(batch.init_roots.tolist(), batch.spout))
        for root, message in zip(batch.fail_roots.tolist(), batch.fail_messages, strict=True):
            self.failed[root] = message
            touched.add(root)
        for root in touched & self.spouts.keys() - self.acked:
            if self.sums[root] == 0:
                self.acked.add(root)
                self._tell(producer, self.spouts[root], acked_roots=_ids(root))
            elif root in self.failed:
                self._tell(
                    producer,
                    self.spouts.pop(root),
                    failed_roots=_ids(root),
                    fail_reasons=np.array([FailReason.FAILED], dtype=np.uint8),
                    fail_messages=(self.failed[root],),
                )

    def _tell(self, producer: Producer, spout: SpoutTask, **said: Any) -> None:
        notice = NoticeBatch(acks_partition=0, acks_offset=0, **said)
        producer.produce(spout.topic, encode_notice_batch(notice), partition=spout.task)


def _ids(root: int) -> Any:
    return np.array([root], dtype=np.uint64)

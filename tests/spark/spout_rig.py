"""What tests of a Spark spout share: a source topic, a real acker, and a receiving bolt that the test plays."""

import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any, cast

import numpy as np
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import NewTopic
from pyspark.sql import SparkSession

from acker_worker.catalogue import Catalogue
from spark_jobs.kafka_options import topic_id
from spark_jobs.spout import RunningSpout, spout
from tests.kafka.ack_log import AckLog, WorkerThread
from tests.kafka.sdk_rig import Cluster, headers_of, value
from tests.spark.rig import topology_name
from tests.spark.topologies import LINE, TIMEOUT_MS, subscription
from tests.topics import create_topics
from tests.waiting import eventually
from tuple_tree.anchors import unpack_anchors
from tuple_tree.codec import encode_ack_batch
from tuple_tree.ids import position_of, topic_key
from tuple_tree.manifest import BoltManifest, Manifest, SpoutManifest
from tuple_tree.messages import AckBatch
from tuple_tree.names import acks_topic, component_group, dead_letters_topic, tuples_topic
from tuple_tree.routing import acker_partition
from tuple_tree.streams import Stream, payload_codec
from tuple_tree.watermarks import watermarks

PARTITIONS = 3


def acker_of(topology: str, kafka: Mapping[str, Any]) -> WorkerThread:
    """A real acker for a topology, in a thread."""
    return WorkerThread(cast(AckLog, SimpleNamespace(topology=topology, kafka=kafka)))


def committed(kafka: Mapping[str, Any], group: str, topic: str, partitions: int) -> dict[int, int]:
    """The offsets that a group has committed."""
    consumer = Consumer({**kafka, "group.id": group})
    try:
        asked = [TopicPartition(topic, partition) for partition in range(partitions)]
        return {each.partition: each.offset for each in consumer.committed(asked, timeout=60)}
    finally:
        consumer.close()


def spout_manifest(
    *,
    stream: Stream = LINE,
    group_by: str | None = None,
    max_pending: int = 2_000,
    timeout_ms: int = TIMEOUT_MS,
    max_tree_age_ms: int = 2 * TIMEOUT_MS,
    **settings: Any,
) -> Manifest:
    """lines (in Spark) → count, which is played."""
    return Manifest.of(
        topology=topology_name(),
        ack_partitions=3,
        tick_ms=200,
        max_tree_age_ms=max_tree_age_ms,
        components=(
            SpoutManifest(name="other", streams=(stream,), timeout_ms=timeout_ms),
            SpoutManifest(
                name="lines", streams=(stream,), timeout_ms=timeout_ms, max_pending=max_pending, external=True
            ),
            BoltManifest(
                name="count",
                tasks=2,
                subscriptions=(subscription("lines", "fields", group_by) if group_by else subscription("lines"),),
            ),
        ),
        **settings,
    )


class SpoutStage:
    """The topics of such a topology.

    Attributes:
        source: topic that the spout reads.
    """

    def __init__(self, bootstrap_servers: str, tmp_path: Path, manifest: Manifest | None = None) -> None:
        self.manifest = manifest or spout_manifest()
        self.kafka: dict[str, Any] = {"bootstrap.servers": bootstrap_servers, "log_level": 2}
        self.cluster = Cluster(bootstrap_servers, self.manifest)
        self.cluster.create_topics()
        Catalogue(self.kafka).publish(self.manifest)
        self.source = f"{self.manifest.topology}-source"
        create_topics(self.kafka, [NewTopic(self.source, PARTITIONS, 1)])
        self.checkpoint = tmp_path / "checkpoint"
        self._producer = Producer({**self.kafka, "linger.ms": 5})
        self._worker: WorkerThread | None = None

    @cached_property
    def topic_key(self) -> int:
        """Of the source, once a spout reads it."""
        return topic_key(topic_id(self.kafka, self.source))

    def produce(self, values: Iterable[bytes | None]) -> None:
        """Appends messages to the source, partition by partition in turn."""
        for number, each in enumerate(values):
            self._producer.produce(self.source, each, partition=number % PARTITIONS, headers=[("mine", b"kept")])
            if number % 10_000 == 9_999:
                assert self._producer.flush(30) == 0
        assert self._producer.flush(30) == 0

    def start(self, spark: SparkSession, **settings: Any) -> RunningSpout:
        return spout(
            spark,
            self.manifest,
            "lines",
            self.source,
            **{"kafka": self.kafka, "checkpoint": str(self.checkpoint), **settings},
        )

    def drain(self, spark: SparkSession, **settings: Any) -> RunningSpout:
        """Delivers all that is in the source, until every tree has its outcome."""
        running = self.start(spark, trigger={"availableNow": True}, **settings)
        assert running.wait(120), f"{running.outcomes.outstanding} trees are open"
        return running

    def __enter__(self) -> "SpoutStage":
        self._worker = acker_of(self.manifest.topology, self.kafka)
        self._worker.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._worker is not None
        self._worker.stop()

    @property
    def acker(self) -> WorkerThread:
        assert self._worker is not None
        return self._worker

    def committed(self) -> dict[int, int]:
        """The offsets of the spout's group on the source."""
        return committed(self.kafka, component_group(self.manifest.topology, "lines"), self.source, PARTITIONS)

    def ends(self) -> dict[int, int]:
        """The end offsets of the source."""
        consumer = Consumer({**self.kafka, "group.id": "ends"})
        try:
            return {
                partition: watermarks(consumer, TopicPartition(self.source, partition), 30)[1]
                for partition in range(PARTITIONS)
            }
        finally:
            consumer.close()

    def received(self) -> list[Message]:
        return self.cluster.records(tuples_topic(self.manifest.topology, "count"))

    def dead_letters(self) -> list[Message]:
        return self.cluster.records(dead_letters_topic(self.manifest.topology))


Judge = Callable[[int, bytes], str | None]
"""Root and payload of a tuple → why it is failed, or None to ack it."""


class PlayedBolt:
    """The bolt: acks or fails what it receives, in a thread.

    Args:
        stage: where it plays.
        judge: says what to do with a tuple.

    Attributes:
        deliveries: root and payload of all tuples, in order.
    """

    def __init__(self, stage: SpoutStage, judge: Judge = lambda _root, _payload: None) -> None:
        self._stage = stage
        self._judge = judge
        self.deliveries: list[tuple[int, bytes]] = []
        self._stopping = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="played bolt")
        self._session = uuid.uuid4().bytes
        self._sequence = 0

    def __enter__(self) -> "PlayedBolt":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(30)
        assert self._error is None, self._error

    @property
    def values(self) -> list[bytes]:
        return [payload for _, payload in self.deliveries]

    def attempts(self) -> dict[tuple[int, int], list[int]]:
        """(partition, offset) → the attempts that were delivered, in order."""
        found: dict[tuple[int, int], list[int]] = {}
        for root, _ in self.deliveries:
            position = position_of(root, self._stage.topic_key)
            found.setdefault((position.partition, position.offset), []).append(position.attempt)
        return found

    def _run(self) -> None:
        try:
            self._play()
        except BaseException as error:  # noqa: BLE001  # kept for the test's own thread
            self._error = error

    def _play(self) -> None:
        stage = self._stage
        producer = Producer({**stage.kafka, "linger.ms": 0})
        settings = {**stage.kafka, "group.id": f"{stage.manifest.topology}-played", "fetch.wait.max.ms": 20}
        consumer = Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False})
        topic = tuples_topic(stage.manifest.topology, "count")
        consumer.assign([TopicPartition(topic, task, 0) for task in range(2)])
        decode = payload_codec(stage.manifest.stream("lines", "default")).decode
        try:
            while not self._stopping.is_set():
                messages = consumer.consume(500, 0.02)
                received: list[tuple[int, int, bytes]] = []
                for message in messages:
                    assert message.error() is None, message.error()
                    said = decode(value(message))[-1]
                    payload = said if isinstance(said, bytes) else str(said).encode()
                    ((root, edge),) = unpack_anchors(headers_of(message)["anchors"]).items()
                    self.deliveries.append((root, payload))
                    received.append((root, edge, payload))
                if received:
                    self._answer(producer, received)
        finally:
            consumer.close()
            producer.flush(10)

    def _answer(self, producer: Producer, chosen: list[tuple[int, int, bytes]]) -> None:
        manifest = self._stage.manifest
        for partition in range(manifest.ack_partitions):
            mine = [each for each in chosen if acker_partition(each[0], manifest.ack_partitions) == partition]
            judged = [(root, edge, self._judge(root, payload)) for root, edge, payload in mine]
            acks = [(root, edge) for root, edge, why in judged if why is None]
            fails = [(root, why) for root, _, why in judged if why is not None]
            self._sequence += 1
            batch = AckBatch(
                "count/0",
                self._session,
                self._sequence,
                ack_roots=np.array([root for root, _ in acks], dtype=np.uint64),
                ack_vals=np.array([edge for _, edge in acks], dtype=np.uint64),
                fail_roots=np.array([root for root, _ in fails], dtype=np.uint64),
                fail_messages=tuple(why for _, why in fails),
            )
            producer.produce(acks_topic(manifest.topology), encode_ack_batch(batch), partition=partition)
        producer.poll(0)


def lines(count: int, start: int = 0) -> list[bytes]:
    return [f"line {number}".encode() for number in range(start, start + count)]


def await_done(stage: SpoutStage, running: RunningSpout, what: str = "all trees done") -> None:
    """Waits until everything in the source is committed as done."""
    consumed = stage.ends()

    def is_done() -> bool:
        assert not running.query.exception()
        return stage.committed() == consumed

    eventually(is_done, what, 90)

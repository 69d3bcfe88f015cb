"""The broker of a benchmark and its topics, which are filled, and watched from outside.

Contestants are compared by what has arrived in a topic: how many records, or tuples in them, and when the broker
appended them. No program measures itself.
"""

import contextlib
import itertools
import math
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.harness import BenchmarkError
from benchmarks.processes import cpu_seconds
from kafka_clients.catalogue import Catalogue
from kafka_clients.log_reader import watermarks
from local_kafka import LocalKafka
from spout_sdk.emitting.ack_buffer import FULL
from tuple_tree.ids import pack_ids, random_column
from tuple_tree.manifest import Manifest, topic_specs
from tuple_tree.payloads import MAX_ROWS, PackCodec, encode_tuples
from tuple_tree.streams import Stream

PAYLOAD_BYTES: Final = 100
_ALPHABET: Final = b"abcdefghijklmnopqrstuvwxyz "
_SAMPLE_SECONDS: Final = 0.02
_WARM_SECONDS: Final = 1.0
_WARM_SHARE: Final = 0.1
_QUIET_SECONDS: Final = 1.0
_PATIENCE_SECONDS: Final = 120.0

QUIET: Final[dict[str, Any]] = {"log_level": 2}
"""Of clients that live as long as the broker, and whose connections end with it."""


def payloads(count: int = 1_000, seed: int = 1) -> list[bytes]:
    """Different payloads of 100 bytes, all lower case."""
    drawn = random.Random(seed)
    return [bytes(drawn.choices(_ALPHABET, k=PAYLOAD_BYTES)) for _ in range(count)]


class Topics:
    """The topics of one broker, whose process is `pid`."""

    def __init__(self, servers: str, pid: int = 0) -> None:
        self.servers = servers
        self.pid = pid
        self._admin = AdminClient({"bootstrap.servers": servers, **QUIET})
        self._reader = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "watch",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                # What has been appended has arrived, whether its transaction has ended or not.
                "isolation.level": "read_uncommitted",
                "auto.offset.reset": "error",
                **QUIET,
            }
        )

    def create(self, topics: Mapping[str, int], config: Mapping[str, str] | None = None) -> None:
        """Makes topics (name → partitions) that are not there yet, with the broker's append time."""
        existing = self._admin.list_topics(timeout=30).topics
        # What is measured rests on the broker's clock.
        config = {"message.timestamp.type": "LogAppendTime", **(config or {})}
        wanted = [NewTopic(name, count, 1, config=config) for name, count in topics.items() if name not in existing]
        for future in self._admin.create_topics(wanted).values() if wanted else ():
            future.result(30)
        for name in (topic.topic for topic in wanted):
            # By the reader's own metadata: it would remember for long that it asked for an offset too early.
            deadline = time.monotonic() + 30
            while not self._reader.list_topics(name, timeout=30).topics[name].partitions:
                if time.monotonic() > deadline:
                    raise BenchmarkError(f"the broker does not describe {name}, which it has created")
                time.sleep(0.1)

    def create_for(self, manifest: Manifest) -> None:
        """Makes the topics of a topology, and publishes its manifest."""
        for spec in topic_specs(manifest):
            self.create({spec.name: spec.partitions}, spec.config)
        Catalogue({"bootstrap.servers": self.servers}).publish(manifest)

    def delete(self, of: str) -> None:
        """Deletes all topics that have a word in their name."""
        names = [name for name in self._admin.list_topics(timeout=30).topics if of in name]
        for future in self._admin.delete_topics(names).values() if names else ():
            future.result(30)

    def fill(self, topic: str, records: int) -> None:
        """Writes so many payloads into partition 0, a record each."""
        self.write(topic, ((value, 0, None) for value in itertools.islice(itertools.cycle(payloads()), records)))

    def fill_packs(self, topic: str, stream: Stream, tuples: int, source: bytes, ack_partitions: int | None) -> None:
        """Writes so many payloads as tuples into partition 0, in full packs: the tuples are rounded up to these.

        Without `ack_partitions` they are untracked.
        """
        pack = encode_tuples(PackCodec(stream), [(payload,) for payload in payloads(MAX_ROWS)])
        headers = record_headers(source, MAX_ROWS, ack_partitions)
        self.write(topic, ((pack, 0, headers()) for _ in range(0, tuples, MAX_ROWS)))

    def write(
        self,
        topic: str,
        records: Iterable[tuple[bytes, int, list[Any] | None]],
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """Writes records: value, partition, headers; without settings of a producer compressed, in large batches."""

        def undelivered(error: KafkaError | None, _message: Message) -> None:
            raise BenchmarkError(f"{topic} could not be filled: {error}")

        producer = Producer(
            {
                "bootstrap.servers": self.servers,
                "enable.idempotence": True,
                "on_delivery": undelivered,
                "delivery.report.only.error": True,
                **(settings or {"linger.ms": 20, "compression.type": "lz4", "queue.buffering.max.messages": 500_000}),
            }
        )
        for value, partition, headers in records:
            while True:
                try:
                    producer.produce(topic, value, partition=partition, headers=headers)
                    break
                except BufferError:
                    producer.poll(0.05)
        if producer.flush(120):
            raise BenchmarkError(f"{topic} could not be filled: the broker does not answer")

    def end(self, topic: str, partition: int = 0) -> int:
        return int(watermarks(self._reader, TopicPartition(topic, partition), 30)[1])

    def read(self, topic: str, first: int, end: int, partition: int = 0) -> Iterator[Message]:
        """The records from one offset of a partition to another, that one excluded."""
        self._reader.assign([TopicPartition(topic, partition, first)])
        deadline = time.monotonic() + 30
        try:
            while True:
                messages = self._reader.consume(1_000, 0.1)
                if messages:
                    deadline = time.monotonic() + 30
                elif time.monotonic() > deadline:
                    raise BenchmarkError(f"{topic} could not be read from offset {first} within 30 s")
                for message in messages:
                    error, offset = message.error(), message.offset()
                    if error is not None and error.code() != KafkaError._PARTITION_EOF:
                        raise BenchmarkError(f"{topic} could not be read from offset {first}: {error}")
                    if error is not None or (offset is not None and offset >= end):
                        return
                    yield message
        finally:
            self._reader.unassign()

    def tuples(self, topic: str, stream: Stream, first: int, end: int) -> int:
        """The number of tuples in the packs from one offset of partition 0 to another, that one excluded."""
        codec = PackCodec(stream)
        return sum(codec.decode_batch(message.value() or b"").num_rows for message in self.read(topic, first, end))

    def appended_at(self, topic: str, offset: int) -> float:
        """When the broker appended the record at an offset of partition 0; seconds since the epoch, to 1 ms.

        Where a transaction's marker lies there, which cannot be read, that of the last record before it.
        """
        for back in (0, 16, 256, 4_096, offset):
            first = max(0, offset - back)
            if appended := [message.timestamp()[1] / 1000 for message in self.read(topic, first, offset + 1)]:
                return appended[-1]
        raise BenchmarkError(f"{topic} has no record up to offset {offset}")

    def rewind(self, group: str, topic: str) -> None:
        """Resets a group without members to the beginning of partition 0."""
        positions = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 0)])
        for future in self._admin.alter_consumer_group_offsets([positions]).values():
            future.result(30)

    def close(self) -> None:
        self._reader.close()


@contextlib.contextmanager
def broker(properties: Mapping[str, str] | None = None, data_dir: Path | None = None) -> Iterator[Topics]:
    """Runs an embedded broker, with the JVM of a server and 1 GiB of heap, and yields its topics."""
    with LocalKafka(properties=properties or {}, data_dir=data_dir, jvm="server", heap="1g") as kafka:
        topics = Topics(kafka.bootstrap_servers, kafka.pid or 0)
        try:
            yield topics
        finally:
            topics.close()


@dataclass(frozen=True, slots=True)
class Flow:
    """Records, or tuples, that arrived within seconds by the broker's append times, and CPU seconds meanwhile."""

    records: int
    seconds: float
    cpu: dict[str, float]
    progress: dict[str, int]

    @property
    def rate(self) -> float:
        return self.records / self.seconds

    def cpu_us(self, process: str, records: int | None = None) -> float:
        """CPU time of a process in microseconds a record, or a tuple."""
        return self.cpu[process] * 1e6 / (self.records if records is None else records)


@dataclass(frozen=True, slots=True)
class _Sample:
    at: float
    end: int
    cpu: dict[str, float]
    progress: dict[str, int]


def watch(
    topics: Topics,
    topic: str,
    pids: Mapping[str, Sequence[int]],
    *,
    records: int | None,
    longest: float,
    stream: Stream | None = None,
    progress: Callable[[], dict[str, int]] = dict,
    check: Callable[[], None] = lambda: None,
) -> Flow:
    """Watches records arrive in partition 0 of a topic.

    The first tenth of the records, or of the time, or the first second, is left out: it shows how something starts. So
    is what comes after 95 % of the records: it shows how it ends. How many packs a component makes of its tuples is not
    known before; there the end is where no more come for a second.

    Args:
        topics: of the broker.
        topic: that is watched.
        pids: name → processes whose CPU time is summed.
        records: that are going to arrive; None if that is not known.
        stream: of the tuples whose packs arrive: then tuples are counted, at the end.
        longest: seconds that are measured at most.
        progress: counts other things.
        check: raises if what is measured does not run any more.
    """
    before = topics.end(topic)

    def sample(end: int) -> _Sample:
        cpu = {name: sum(map(cpu_seconds, each)) for name, each in pids.items()}
        return _Sample(time.monotonic(), end, cpu, progress())

    asked = time.monotonic()
    first = start = None
    enough = math.inf if records is None else before + int(records * 0.95)
    latest, moved = None, asked
    while True:
        end = topics.end(topic)
        now = time.monotonic()
        if end == before:
            check()
            if now - asked > _PATIENCE_SECONDS:
                raise BenchmarkError(f"nothing arrived in {topic} within {_PATIENCE_SECONDS:g} s")
        elif first is None:
            first = now
        if first is not None and start is None:
            warm = min(_WARM_SECONDS, longest * _WARM_SHARE)
            if now - first >= warm or (records is not None and end - before >= records * _WARM_SHARE):
                start = sample(end)
        elif start is not None:
            if end >= enough or now - start.at >= longest:
                last = sample(end)
                break
            if records is None and (latest is None or end > latest.end):
                latest, moved = sample(end), now
            elif latest is not None and now - moved >= _QUIET_SECONDS:
                last = latest
                break
            check()
        time.sleep(_SAMPLE_SECONDS)
    arrived = last.end - start.end
    if arrived < (records or 0) / 1000 or arrived < 2:
        raise BenchmarkError(f"only {arrived} records arrived in {topic}: too few to say anything")
    seconds = topics.appended_at(topic, last.end - 1) - topics.appended_at(topic, start.end - 1)
    return Flow(
        arrived if stream is None else topics.tuples(topic, stream, start.end, last.end),
        max(seconds, 0.001),
        {name: last.cpu[name] - start.cpu[name] for name in last.cpu},
        {name: last.progress[name] - start.progress.get(name, 0) for name in last.progress},
    )


def record_headers(source: bytes, tuples: int, ack_partitions: int | None) -> Callable[[], list[Any]]:
    """Headers of a record of tuples with one anchor each, other roots each time; untracked without ack partitions.

    As those that a busy task of a spout draws, the roots of 4,096 tuples in a row share an ack partition (ADR 20).
    """
    if ack_partitions is None:
        return lambda: [("source", source)]
    drawn = itertools.count(0, tuples)

    def headers() -> list[Any]:
        ids = random_column(2 * tuples).copy()
        sticky = next(drawn) // FULL % ack_partitions
        ids[::2] -= ids[::2] % np.uint64(ack_partitions)
        ids[::2] += np.uint64(sticky)
        return [("anchors", pack_ids(ids)), ("source", source)]

    return headers

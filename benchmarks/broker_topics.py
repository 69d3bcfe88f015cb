"""Topics of a benchmark: made, filled, and watched from outside.

Everything that is compared is measured here and in the same way, by what has arrived in a topic: how many records, or
how many tuples are in them, and when the broker appended them. No program measures itself.
"""

import itertools
import math
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.errors import BenchmarkError
from benchmarks.processes import cpu_seconds
from kafka_clients.watermarks import watermarks
from spout_sdk.emitting.ack_buffer import FULL
from tuple_tree.ids import pack_ids, random_column
from tuple_tree.packs import MAX_ROWS, PackCodec
from tuple_tree.payloads import encode_tuples
from tuple_tree.streams import Stream

PAYLOAD_BYTES: Final = 100
_ALPHABET: Final = b"abcdefghijklmnopqrstuvwxyz "
_LOOK_SECONDS: Final = 0.02
_WARM_SECONDS: Final = 1.0
_WARM_SHARE: Final = 0.1
_QUIET_SECONDS: Final = 1.0

# Appended when it was appended, by the broker's clock: what is measured rests on it.
APPEND_TIME: Final = {"message.timestamp.type": "LogAppendTime"}


def payloads(count: int = 1_000, seed: int = 1) -> list[bytes]:
    """Different payloads of 100 bytes, all lower case."""
    drawn = random.Random(seed)
    return [bytes(drawn.choices(_ALPHABET, k=PAYLOAD_BYTES)) for _ in range(count)]


class Topics:
    """The topics of one broker.

    Args:
        servers: where it is.
    """

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self._admin = AdminClient({"bootstrap.servers": servers})
        self._reader = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "watch",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                # What has been appended has arrived, whether its transaction has ended or not.
                "isolation.level": "read_uncommitted",
                "auto.offset.reset": "error",
            }
        )

    def create(self, topics: Mapping[str, int], config: Mapping[str, str] | None = None) -> None:
        """Makes topics that are not there yet.

        Args:
            topics: name → partitions.
            config: of each; the broker's append time is always set.
        """
        there = self._admin.list_topics(timeout=30).topics
        wanted = [
            NewTopic(name, partitions, 1, config={**APPEND_TIME, **(config or {})})
            for name, partitions in topics.items()
            if name not in there
        ]
        if wanted:
            for future in self._admin.create_topics(wanted).values():
                future.result(30)

    def fill(self, topic: str, records: int, headers: Callable[[], list[Any] | None] = lambda: None) -> None:
        """Writes so many payloads into partition 0, a record each."""
        self._write(topic, ((value, headers()) for value in itertools.islice(itertools.cycle(payloads()), records)))

    def fill_packs(self, topic: str, stream: Stream, tuples: int, source: bytes, ack_partitions: int | None) -> None:
        """Writes so many payloads as tuples into partition 0, in full packs: the tuples are rounded up to these.

        Without `ack_partitions` they are untracked.
        """
        pack = encode_tuples(PackCodec(stream), [(payload,) for payload in payloads(MAX_ROWS)])
        headers = tracked_headers(source, MAX_ROWS, ack_partitions) if ack_partitions else untracked_headers(source)
        self._write(topic, ((pack, headers()) for _ in range(0, tuples, MAX_ROWS)))

    def _write(self, topic: str, records: Iterable[tuple[bytes, list[Any] | None]]) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.servers,
                "linger.ms": 20,
                "compression.type": "lz4",
                "enable.idempotence": True,
                "queue.buffering.max.messages": 500_000,
            }
        )
        for value, headers in records:
            while True:
                try:
                    producer.produce(topic, value, partition=0, headers=headers)
                    break
                except BufferError:
                    producer.poll(0.05)
        if producer.flush(120):
            raise BenchmarkError(f"{topic} could not be filled: the broker does not answer")

    def end(self, topic: str) -> int:
        """The high watermark of partition 0."""
        return int(watermarks(self._reader, TopicPartition(topic, 0), 30)[1])

    def tuples(self, topic: str, stream: Stream, first: int, end: int) -> int:
        """How many tuples the packs from one offset of partition 0 to another have, that one excluded."""
        codec, count = PackCodec(stream), 0
        self._reader.assign([TopicPartition(topic, 0, first)])
        heard = time.monotonic()
        try:
            while True:
                messages = self._reader.consume(1_000, 0.1)
                heard = time.monotonic() if messages else heard
                if time.monotonic() - heard > 30:
                    raise BenchmarkError(f"{topic} could not be read from offset {first} within 30 s")
                for message in messages:
                    error, offset = message.error(), message.offset()
                    if error is not None and error.code() != KafkaError._PARTITION_EOF:
                        raise BenchmarkError(f"{topic} could not be read from offset {first}: {error}")
                    if error is not None or (offset is not None and offset >= end):
                        return count
                    count += codec.decode_batch(message.value() or b"").num_rows
        finally:
            self._reader.unassign()

    def appended_at(self, topic: str, offset: int) -> float:
        """When the broker appended the record at an offset of partition 0; seconds since the epoch, to 1 ms.

        Where a transaction's marker lies there, which nobody can read, that of the last record before it.
        """
        back = 0
        while True:
            first = max(0, offset - back)
            found = self._last_append(topic, first, offset)
            if found is not None:
                return found
            if first == 0:
                raise BenchmarkError(f"{topic} has no record up to offset {offset}")
            back = max(16, 16 * back)

    def _last_append(self, topic: str, first: int, last: int) -> float | None:
        """When the last record of some offsets was appended; None if there is none."""
        self._reader.assign([TopicPartition(topic, 0, first)])
        found = None
        try:
            while True:
                message = self._reader.poll(30)
                if message is None:
                    raise BenchmarkError(f"{topic} could not be read from offset {first} within 30 s")
                error, offset = message.error(), message.offset()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise BenchmarkError(f"{topic} could not be read from offset {first}: {error}")
                if error is not None or (offset is not None and offset > last):
                    return found
                found = message.timestamp()[1] / 1000
                if offset == last:
                    return found
        finally:
            self._reader.unassign()

    def rewind(self, group: str, topic: str) -> None:
        """Lets a group, which nobody may be in, read partition 0 from its beginning."""
        positions = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 0)])
        for future in self._admin.alter_consumer_group_offsets([positions]).values():
            future.result(30)

    def close(self) -> None:
        """Lets go of the broker."""
        self._reader.close()


@dataclass(frozen=True, slots=True)
class Flow:
    """What arrived while it was watched.

    Attributes:
        records: how many, or how many tuples.
        seconds: between the first and the last of them, by the broker's append times.
        cpu: process → its CPU seconds meanwhile.
        progress: what else was counted → how much it grew.
    """

    records: int
    seconds: float
    cpu: dict[str, float]
    progress: dict[str, int]

    @property
    def rate(self) -> float:
        """Records a second."""
        return self.records / self.seconds

    def cpu_us(self, process: str, records: int | None = None) -> float:
        """CPU time of a process in microseconds a record, or a tuple."""
        return self.cpu[process] * 1e6 / (self.records if records is None else records)


@dataclass(frozen=True, slots=True)
class _Look:
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
    patience: float = 120.0,
    progress: Callable[[], dict[str, int]] = dict,
    check: Callable[[], None] = lambda: None,
) -> Flow:
    """Watches records arrive in partition 0 of a topic.

    The first tenth of the records, or of the time, or the first second, is left out: it shows how something starts. So
    is what comes after 95 % of the records: it shows how it ends. How many packs a component makes of its tuples is not
    known before; there the end is where no more come for a second.

    Args:
        topics: where.
        topic: which.
        pids: name → processes whose CPU time is summed.
        records: how many are going to arrive; None if that is not known.
        stream: of the tuples whose packs arrive: then it is tuples that are counted, when all is over.
        longest: seconds after which enough was seen.
        patience: seconds to wait for the first record.
        progress: what else is counted.
        check: raises if what is measured does not run any more.
    """
    before = topics.end(topic)

    def look(end: int) -> _Look:
        cpu = {name: sum(map(cpu_seconds, each)) for name, each in pids.items()}
        return _Look(time.monotonic(), end, cpu, progress())

    asked = time.monotonic()
    first = start = None
    enough = math.inf if records is None else before + int(records * 0.95)
    latest, moved = None, asked
    while True:
        end = topics.end(topic)
        now = time.monotonic()
        if end == before:
            check()
            if now - asked > patience:
                raise BenchmarkError(f"nothing arrived in {topic} within {patience:g} s")
        elif first is None:
            first = now
        if first is not None and start is None:
            warm = min(_WARM_SECONDS, longest * _WARM_SHARE)
            if now - first >= warm or (records is not None and end - before >= records * _WARM_SHARE):
                start = look(end)
        elif start is not None:
            if end >= enough or now - start.at >= longest:
                last = look(end)
                break
            if records is None and (latest is None or end > latest.end):
                latest, moved = look(end), now
            elif latest is not None and now - moved >= _QUIET_SECONDS:
                last = latest
                break
            check()
        time.sleep(_LOOK_SECONDS)
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


class ArrivedTuples:
    """Counts the tuples that have arrived in partition 0 of a topic, and may be read.

    Args:
        kafka: librdkafka properties.
        topic: of one stream's records.
        stream: whose tuples these are, in packs.
    """

    def __init__(self, kafka: Mapping[str, Any], topic: str, stream: Stream) -> None:
        self._codec = PackCodec(stream)
        self._consumer = Consumer({**kafka, "group.id": "arrivals", "enable.auto.commit": False})
        self._consumer.assign([TopicPartition(topic, 0, 0)])
        self._count = 0

    def count(self) -> int:
        """How many there are, as far as they could be read at once."""
        while records := self._consumer.consume(1_000, 0):
            self._count += sum(self._codec.decode_batch(each.value() or b"").num_rows for each in records)
        return self._count

    def close(self) -> None:
        """Lets go of the broker."""
        self._consumer.close()


def tracked_headers(source: bytes, tuples: int = 1, ack_partitions: int = 1) -> Callable[[], list[Any]]:
    """Headers of a record of tuples with one anchor each; other roots each time.

    As those that a busy task of a spout draws, the roots of 4,096 tuples in a row share an ack partition (ADR 20).
    """
    drawn = itertools.count(0, tuples)

    def headers() -> list[Any]:
        ids = random_column(2 * tuples).copy()
        sticky = next(drawn) // FULL % ack_partitions
        ids[::2] -= ids[::2] % np.uint64(ack_partitions)
        ids[::2] += np.uint64(sticky)
        return [("anchors", pack_ids(ids)), ("source", source)]

    return headers


def untracked_headers(source: bytes) -> Callable[[], list[Any]]:
    """Headers of a record of untracked tuples."""
    return lambda: [("source", source)]

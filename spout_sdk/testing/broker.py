"""A broker in memory: topics, partitions, append times, and committed offsets of groups.

It keeps all records until they are deleted, and delivers them at once and in order.
"""

import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from spout_sdk.errors import SpoutSdkError
from spout_sdk.records import Headers, MadeRecord
from spout_sdk.testing.chance import EPOCH_MS
from tuple_tree.commit_metadata import LARGEST_METADATA
from tuple_tree.topics import TopicSpec

LARGEST_RECORD: Final = 1_048_588
"""Largest size of a compressed record batch in bytes, by Kafka's default of `max.message.bytes`."""
_BATCH_HEADER: Final = 61
_LOG_APPEND_TIME: Final = 2
_CREATE_TIME: Final = 1
_ANY_PARTITION: Final = -1


class SimulationError(SpoutSdkError):
    """A simulated cluster cannot do this, or does not have this component."""


class NotIdleError(SimulationError):
    """A simulated cluster did not become idle, or became idle before a condition held."""


@dataclass(frozen=True, slots=True)
class MemoryRecord(MadeRecord):
    """A record as a consumer returns it; a `Record`, with the methods of `confluent_kafka.Message`."""

    timestamp_: tuple[int, int] = (_CREATE_TIME, EPOCH_MS)
    error_: KafkaError | None = None

    def error(self) -> KafkaError | None:
        """The error of an event that is no record, such as the end of a partition; None for a record."""
        return self.error_


@dataclass(slots=True)
class _Log:
    """A partition: its records, its first offset, and the offset of its next record."""

    records: list[MemoryRecord] = field(default_factory=list)
    begin: int = 0
    end: int = 0

    def find(self, offset: int) -> int:
        """The index of the first record that is not before an offset."""
        return bisect_left(self.records, offset, key=MemoryRecord.offset)


class MemoryBroker:
    """Topics in memory.

    Args:
        topics: the topics that exist; others cannot be written or read.
        now_ms: returns the broker's time, in milliseconds since 1970.

    Attributes:
        appended: the total number of records appended.
        largest_metadata: largest size of the metadata of a commit in bytes, `offset.metadata.max.bytes` of Kafka.
    """

    def __init__(self, topics: Sequence[TopicSpec], now_ms: Callable[[], int]) -> None:
        self._logs: dict[str, list[_Log]] = {spec.name: [_Log() for _ in range(spec.partitions)] for spec in topics}
        self._time_type = {
            spec.name: _LOG_APPEND_TIME
            if spec.config.get("message.timestamp.type") == "LogAppendTime"
            else _CREATE_TIME
            for spec in topics
        }
        self._now_ms = now_ms
        self._commits: dict[tuple[str, str, int], TopicPartition] = {}
        self.appended = 0
        self.largest_metadata = LARGEST_METADATA

    @property
    def topics(self) -> list[str]:
        """The names of the topics."""
        return list(self._logs)

    def append(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers | None,
        compression: str = "none",
    ) -> MemoryRecord:
        """Appends a record, and returns it.

        If the partition is -1, the hash of the key chooses it. The compression matters only for the largest size.

        Raises:
            SimulationError: if there is no such topic and partition, or the record is too large.
        """
        if partition == _ANY_PARTITION:
            partition = zlib.crc32(key or b"") % self.partitions(topic)
        log = self._log(topic, partition)
        stamp = (self._time_type.get(topic, _CREATE_TIME), self._now_ms())
        if refused := self.refusal(topic, partition, key, value, headers, compression):
            raise SimulationError(f"the record does not fit into {topic}: {refused.str()}")
        record = MemoryRecord(topic, partition, log.end, value, headers or None, key, stamp)
        log.records.append(record)
        log.end += 1
        self.appended += 1
        return record

    def refusal(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers | None,
        compression: str = "none",
    ) -> KafkaError | None:
        """The error if a record cannot be appended: unknown topic or partition, or too large; otherwise None."""
        if topic not in self._logs:
            return KafkaError(KafkaError._UNKNOWN_TOPIC)
        if partition != _ANY_PARTITION and not self.has(topic, partition):
            return KafkaError(KafkaError._UNKNOWN_PARTITION)
        size = _BATCH_HEADER + record_size(key, value, headers)
        if size > LARGEST_RECORD and compression != "none":
            whole = b"".join((key or b"", value or b"", *(of for _, of in headers or () if isinstance(of, bytes))))
            size = _BATCH_HEADER + len(pa.compress(whole, codec=compression))
        return KafkaError(KafkaError.MSG_SIZE_TOO_LARGE) if size > LARGEST_RECORD else None

    def fetch(self, topic: str, partition: int, offset: int, limit: int) -> list[MemoryRecord]:
        """The records from an offset on, at most `limit`."""
        log = self._log(topic, partition)
        return log.records[(first := log.find(offset)) : first + limit]

    def delete(self, topic: str, partition: int, begin: int, end: int) -> None:
        """Deletes a range of offsets: as retention if the first one is among them, otherwise as compaction."""
        log = self._log(topic, partition)
        del log.records[log.find(begin) : log.find(end)]
        if begin <= log.begin:
            log.begin = end

    def begin(self, topic: str, partition: int) -> int:
        """The first offset that retention has left."""
        return self._log(topic, partition).begin

    def end(self, topic: str, partition: int) -> int:
        """The offset of the next record; Kafka's high watermark."""
        return self._log(topic, partition).end

    def records(self, topic: str) -> list[MemoryRecord]:
        """All records of a topic, partition by partition."""
        return [record for log in self._partitions(topic) for record in log.records]

    def partitions(self, topic: str) -> int:
        """The number of partitions of a topic."""
        return len(self._partitions(topic))

    def has(self, topic: str, partition: int) -> bool:
        """Whether the topic and partition exist."""
        return 0 <= partition < len(self._logs.get(topic, ()))

    def commit(self, group: str, offsets: Iterable[TopicPartition]) -> None:
        """Commits offsets and their metadata for a group.

        Raises:
            KafkaException: if metadata have more than `largest_metadata` bytes; then nothing is committed.
        """
        offsets = list(offsets)
        self.check_metadata(offsets)
        for at in offsets:
            self._commits[group, at.topic, at.partition] = at

    def check_metadata(self, offsets: Iterable[TopicPartition], **options: bool) -> None:
        """Raises the error of `commit`, with options of `KafkaError`."""
        for at in offsets:
            if (size := len((at.metadata or "").encode())) > self.largest_metadata:
                text = (
                    f"{size} bytes of metadata for {at.topic}[{at.partition}], and Kafka takes {self.largest_metadata}"
                )
                raise KafkaException(KafkaError(KafkaError.OFFSET_METADATA_TOO_LARGE, text, **options))

    def committed(self, group: str, topic: str, partition: int) -> TopicPartition | None:
        """The committed offset of a group; None if there is none."""
        return self._commits.get((group, topic, partition))

    def _log(self, topic: str, partition: int) -> _Log:
        logs = self._partitions(topic)
        if not 0 <= partition < len(logs):
            raise SimulationError(f"topic {topic} has no partition {partition}: it has {len(logs)}, numbered from 0")
        return logs[partition]

    def _partitions(self, topic: str) -> list[_Log]:
        logs = self._logs.get(topic)
        if logs is None:
            raise SimulationError(f"there is no topic {topic!r}: the topics are {', '.join(self._logs)}")
        return logs


def record_size(key: bytes | None, value: bytes | None, headers: Headers | None) -> int:
    """Uncompressed size in bytes of a record that is the first of a batch."""
    body = 3 + _sized(key) + _sized(value) + _varint(len(headers or ())) + headers_size(headers)
    return _varint(body) + body


def headers_size(headers: Headers | None) -> int:
    return sum(_sized(name) + _sized(value) for name, value in headers or ())


def _sized(part: str | bytes | None) -> int:
    size = 0 if part is None else len(part.encode() if isinstance(part, str) else part)
    return _varint(size) + size


def _varint(number: int) -> int:
    """Size in bytes of a number in Kafka's zigzag varints: the first byte holds six bits, each other byte seven."""
    return 1 + (number.bit_length()) // 7

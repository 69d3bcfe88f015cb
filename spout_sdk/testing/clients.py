"""Clients of a broker in memory, in place of the consumers, producers and admin clients of confluent-kafka.

They have the methods that spouts, bolts and ackers call. No call waits, and a call fails only where Kafka or its client
would refuse a record, a commit or a topic.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, TypeVar

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from kafka_clients.background import Background, settle
from kafka_clients.client_settings import CLIENT_CLASSES
from kafka_clients.librdkafka_bugs import forgettable
from spout_sdk.testing.broker import MemoryBroker, MemoryRecord, headers_size

T = TypeVar("T")

_NEVER_MS: Final = 10**12  # transaction timeout, so long that no transaction times out
_EOF: Final = KafkaError(KafkaError._PARTITION_EOF)
_OUT_OF_RANGE: Final = KafkaError(KafkaError._AUTO_OFFSET_RESET, "Broker: Offset out of range")
_LARGEST: Final = 1_000_000
"""librdkafka's default of `message.max.bytes`: largest uncompressed size of a record, with the largest overhead."""
_MOST_OVERHEAD: Final = 36


@dataclass(slots=True)
class MemoryClients:
    """Creates the clients of one process, whose consumers are assigned the same partitions of each topic."""

    broker: MemoryBroker
    partitions: Sequence[int]
    room: int = 0  # how many records the consumers may return until it is set again

    @property
    def settings(self) -> dict[str, Any]:
        classes = {
            Consumer: partial(MemoryConsumer, self),
            forgettable(Consumer): partial(MemoryConsumer, self),
            Producer: partial(MemoryProducer, self.broker),
            forgettable(AdminClient): partial(MemoryAdmin, self.broker),
            Background: AtOnce,
        }
        return {CLIENT_CLASSES: classes, "transaction.timeout.ms": _NEVER_MS}


class MemoryConsumer:
    """A `confluent_kafka.Consumer`; the first `poll` or `consume` after `subscribe` assigns the partitions."""

    def __init__(self, clients: MemoryClients, settings: Mapping[str, Any]) -> None:
        self._clients = clients
        self._broker = clients.broker
        self._group = settings["group.id"]
        self._on_commit = settings.get("on_commit", lambda _error, _partitions: None)
        self._reports_ends = settings.get("enable.partition.eof", False)
        self._reports_gaps = settings.get("auto.offset.reset") == "error"
        self._joining: list[Any] = []
        self._positions: dict[tuple[str, int], int] = {}
        self._ended: set[tuple[str, int]] = set()  # partitions whose current end was reported
        self._paused: set[tuple[str, int]] = set()
        self._idle_at = -1  # `appended` of the broker when all records were read; -1 before

    def subscribe(self, topics: Sequence[str], *, on_assign: Any, **_callbacks: Any) -> None:
        partitions = [TopicPartition(topic, number) for topic in topics for number in self._clients.partitions]
        self._joining = [partial(on_assign, self, partitions)]

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._positions.clear()
        self.incremental_assign(partitions)

    def incremental_assign(self, partitions: Iterable[TopicPartition]) -> None:
        for each in partitions:
            start = each.offset if each.offset >= 0 else self.committed([each])[0].offset
            self._positions[each.topic, each.partition] = max(0, start)
            self._ended.discard((each.topic, each.partition))
        self._idle_at = -1

    def unassign(self) -> None:
        self._positions.clear()

    def incremental_unassign(self, partitions: Iterable[TopicPartition]) -> None:
        for each in partitions:
            del self._positions[each.topic, each.partition]

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self._paused.update((each.topic, each.partition) for each in partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._paused.difference_update((each.topic, each.partition) for each in partitions)

    def poll(self, _seconds: float) -> MemoryRecord | None:
        return next(iter(self.consume(1)), None)

    def consume(self, limit: int, _seconds: float = 0.0) -> list[MemoryRecord]:
        while self._joining:
            self._joining.pop()()
        messages: list[MemoryRecord] = []
        if self._idle_at == self._broker.appended:
            return messages
        for at in [*self._positions]:
            room = min(limit - len(messages), self._clients.room)
            if room > 0 and at not in self._paused:
                position = self._positions[at]
                if position < self._broker.begin(*at) and self._reports_gaps:
                    messages.append(MemoryRecord(*at, position, error_=_OUT_OF_RANGE))
                    continue
                if fetched := self._broker.fetch(*at, position, room):
                    del self._positions[at]  # moves it to the end, so that the other partitions are next
                    self._positions[at] = fetched[-1].offset_ + 1
                    self._clients.room -= len(fetched)
                    self._ended.discard(at)
                    messages += fetched
                elif position < (end := self._broker.end(*at)):
                    self._positions[at] = end
                    self._ended.discard(at)
            if self._reports_ends and at not in self._ended and len(messages) < limit:
                self._report_end(at, messages)
        if not messages and self._clients.room and not self._paused:
            self._idle_at = self._broker.appended
        return messages

    def _report_end(self, at: tuple[str, int], messages: list[MemoryRecord]) -> None:
        end = self._broker.end(*at)
        if self._positions[at] == end:
            self._ended.add(at)
            messages.append(MemoryRecord(*at, end, error_=_EOF))

    def commit(self, *, offsets: list[TopicPartition], asynchronous: bool) -> list[TopicPartition]:
        error = None
        try:
            self._broker.commit(self._group, offsets)
        except KafkaException as refused:
            if not asynchronous:
                raise
            error = refused.args[0]
        if asynchronous:
            self._on_commit(error, offsets)
        return offsets

    def committed(self, partitions: Iterable[TopicPartition], **_timeout: float) -> list[TopicPartition]:
        commits = [(at, self._broker.committed(self._group, at.topic, at.partition)) for at in partitions]
        return [
            TopicPartition(at.topic, at.partition, OFFSET_INVALID)
            if commit is None
            else TopicPartition(at.topic, at.partition, commit.offset, commit.metadata or "")
            for at, commit in commits
        ]

    def position(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        places = [(each.topic, each.partition) for each in partitions]
        return [TopicPartition(*at, self._positions[at]) for at in places]

    def offsets_for_times(self, wanted: Iterable[TopicPartition], **_timeout: float) -> list[TopicPartition]:
        """The ends of partitions, requested by `OFFSET_END`; other times are not supported."""
        return [
            TopicPartition(each.topic, each.partition, self._broker.end(each.topic, each.partition)) for each in wanted
        ]

    def get_watermark_offsets(self, at: TopicPartition, **_options: Any) -> tuple[int, int]:
        return self._broker.begin(at.topic, at.partition), self._broker.end(at.topic, at.partition)

    def list_topics(self, topic: str, **_timeout: float) -> SimpleNamespace:
        return _metadata(self._broker, [topic])

    def consumer_group_metadata(self) -> str:
        return self._group  # type: ignore[no-any-return]

    def memberid(self) -> str:
        return "member"

    def close(self) -> None:
        """Does nothing."""


class MemoryProducer:
    """A `confluent_kafka.Producer`: appends a record at once, or when its transaction is committed.

    As with librdkafka, only `poll` and `flush` call delivery reports, never `produce`.
    """

    def __init__(self, broker: MemoryBroker, settings: Mapping[str, Any]) -> None:
        self._broker = broker
        self._reports_all = not settings.get("delivery.report.only.error")
        self._largest = settings.get("message.max.bytes", _LARGEST)
        self._compression = settings.get("compression.type", "none")
        self._reports: deque[Any] = deque()
        self._transaction: list[tuple[Any, ...]] | None = None
        self._offsets: tuple[str, Sequence[TopicPartition]] = ("", ())

    def __len__(self) -> int:
        return len(self._reports)

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        partition: int = -1,
        on_delivery: Any = None,
        _timestamp: Any = None,
        _unused: int = 0,
        headers: Any = None,
    ) -> None:
        if not isinstance(topic, str):
            raise TypeError(f"argument 1 must be str, not {type(topic).__name__}")
        if _MOST_OVERHEAD + len(key or b"") + len(value or b"") + headers_size(headers) > self._largest:
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        record = (topic, partition, key, value, headers, self._compression)
        refused = self._broker.refusal(*record)
        if refused and refused.code() != KafkaError.MSG_SIZE_TOO_LARGE:
            raise KafkaException(refused)
        if self._transaction is not None:
            self._transaction.append(record)
            return
        message = MemoryRecord(topic, partition, None, value, key_=key) if refused else self._broker.append(*record)
        if refused or self._reports_all:
            self._reports.append(partial(on_delivery, refused, message))

    def poll(self, _seconds: float = 0.0) -> int:
        """Calls the delivery reports, also of records that are sent by delivery reports."""
        served = 0
        while self._reports:
            self._reports.popleft()()
            served += 1
        return served

    def flush(self, _seconds: float = 0.0) -> int:
        self.poll()
        return 0

    def list_topics(self, topic: str, **_timeout: float) -> SimpleNamespace:
        return _metadata(self._broker, [topic])

    def init_transactions(self, _seconds: float) -> None:
        """Does nothing: a transaction of an earlier process was dropped with its producer."""

    def begin_transaction(self) -> None:
        self._transaction = []

    def send_offsets_to_transaction(self, offsets: Sequence[TopicPartition], group: str, _seconds: float) -> None:
        self._broker.check_metadata(offsets, txn_requires_abort=True)
        self._offsets = group, offsets

    def commit_transaction(self, _seconds: float) -> None:
        for record in self._transaction or ():
            self._broker.append(*record)
        self._broker.commit(*self._offsets)

    def abort_transaction(self, _seconds: float) -> None:
        self._transaction = None


class MemoryAdmin:
    """A `confluent_kafka.admin.AdminClient`; the id of a topic is its name."""

    def __init__(self, broker: MemoryBroker, _settings: Mapping[str, Any]) -> None:
        self._broker = broker

    def poll(self, _seconds: float) -> int:
        return 0

    def describe_topics(self, topics: TopicCollection, **_timeout: float) -> dict[str, Future[SimpleNamespace]]:
        return {topic: self._described(topic) for topic in topics.topic_names}

    def list_topics(self, **_timeout: float) -> SimpleNamespace:
        return _metadata(self._broker, self._broker.topics)

    def _described(self, topic: str) -> Future[SimpleNamespace]:
        if topic in self._broker.topics:
            return _answer(SimpleNamespace(topic_id=topic, partitions=range(self._broker.partitions(topic))))
        unknown: Future[SimpleNamespace] = Future()
        unknown.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
        return unknown


class AtOnce(Background):
    """Makes the calls of `Background` in the caller's thread: they do not wait, and every run is the same."""

    def begin(self, call: Callable[[], T], _name: str) -> Future[T]:
        outcome: Future[T] = Future()
        settle(outcome, call)
        return outcome


def _metadata(broker: MemoryBroker, topics: Iterable[str]) -> SimpleNamespace:
    described = {each: SimpleNamespace(error=None, partitions=range(broker.partitions(each))) for each in topics}
    return SimpleNamespace(topics=described)


def _answer(result: SimpleNamespace) -> Future[SimpleNamespace]:
    answer: Future[SimpleNamespace] = Future()
    answer.set_result(result)
    return answer

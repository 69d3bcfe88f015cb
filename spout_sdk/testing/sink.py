"""What simulated tasks send and commit through, on the broker in memory."""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import OFFSET_INVALID, KafkaError, TopicPartition

from spout_sdk.records import Delivered, Sending
from spout_sdk.testing.broker import CommittedOffset, MemoryBroker


class MemorySink:
    """Sends at once. As with librdkafka, delivery reports are only served in `poll`, never while something is sent."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker
        self._reports: deque[tuple[Delivered, KafkaError | None, Any]] = deque()

    def send(self, *record: *Sending) -> None:
        appended, error = self._append(*record[:-1])
        if error is not None:
            self._reports.append((record[-1], error, appended))

    def send_reported(self, *record: *Sending) -> None:
        appended, error = self._append(*record[:-1])
        self._reports.append((record[-1], error, appended))

    def flush(self, _seconds: float) -> int:
        """Calls the delivery reports: a record is in the log as soon as it is sent."""
        self.poll()
        return 0

    flush_acks = flush

    def poll(self) -> None:
        """Calls the delivery reports, and those of what is sent because of them."""
        while self._reports:
            on_delivery, error, record = self._reports.popleft()
            on_delivery(error, record)

    def _append(self, *record: Any) -> tuple[Any, KafkaError | None]:
        return self._broker.append(*record)


class MemoryTransactions(MemorySink):
    """A `TransactionalSink` in memory: no record of a transaction is seen before its commit, which cannot fail."""

    timeout: Final = math.inf

    def __init__(self, broker: MemoryBroker, group: str) -> None:
        super().__init__(broker)
        self._group = group
        self._records: list[tuple[Any, ...]] = []

    @property
    def is_used(self) -> bool:
        return bool(self._records)

    def send_reported(self, *record: Any) -> None:
        super().send_reported(*record)
        self.poll()

    def commit(self, positions: Sequence[TopicPartition], _place_in_group: object) -> None:
        for record in self._records:
            self._broker.append(*record)
        self._records.clear()
        for at in positions:
            self._broker.commit(self._group, at.topic, at.partition, CommittedOffset(at.offset, at.metadata or ""))

    def abort(self) -> None:
        self._records.clear()

    def _append(self, *record: Any) -> tuple[Any, KafkaError | None]:
        error = self._broker.refusal(*record)
        if error is None:
            self._records.append(record)
        return None, error


class MemoryReader:
    """What a delivery guarantee uses of a `KafkaReader`, for the inbox of a bolt."""

    place_in_group: Final = None

    def __init__(self, broker: MemoryBroker, group: str, topic: str) -> None:
        self._broker = broker
        self._group = group
        self._topic = topic

    def commit(self, offsets: Mapping[int, int], _seconds: float = 0.0) -> bool:
        for partition, offset in offsets.items():
            self._broker.commit(self._group, self._topic, partition, CommittedOffset(offset))
        return True

    commit_now = commit

    def committed(self, partitions: Sequence[int]) -> list[TopicPartition]:
        commits = {each: self._broker.committed(self._group, self._topic, each) for each in partitions}
        return [
            TopicPartition(self._topic, each, OFFSET_INVALID)
            if commit is None
            else TopicPartition(self._topic, each, commit.offset, commit.metadata)
            for each, commit in commits.items()
        ]

    def starts(self, partitions: Sequence[int]) -> list[TopicPartition]:
        return self.positions({at.partition: max(0, at.offset) for at in self.committed(partitions)})

    def positions(self, offsets: Mapping[int, int], metadata: Mapping[int, str] | None = None) -> list[TopicPartition]:
        beside = metadata or {}
        return [TopicPartition(self._topic, each, offset, beside.get(each, "")) for each, offset in offsets.items()]

"""Reading from Kafka: a consumer in a component's group, and what its errors mean."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from kafka_clients.access import remedy
from kafka_clients.bounded_calls import HANG_S, bounded
from kafka_clients.broker_monitor import LOST, BrokerMonitor
from kafka_clients.watermarks import watermarks
from spout_sdk.errors import AccessError, BrokerError, RolledBackError, SpoutSdkError
from spout_sdk.kafka.group_commits import commit_now
from spout_sdk.kafka.kafka_settings import KafkaSettings, consumer_settings

logger = logging.getLogger("spout_sdk.kafka")

ANSWER_SECONDS: Final = 10.0

# What waiting does not cure.
_FINAL: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError._FATAL,
        KafkaError._AUTHENTICATION,
    }
)

_REGROUPING: Final = frozenset({KafkaError.ILLEGAL_GENERATION, KafkaError.REBALANCE_IN_PROGRESS})

Partitions = Callable[[Sequence[int]], None]
"""Called with partition numbers."""


class KafkaReader:
    """The records of one topic, of the partitions that the group gives to this process.

    Args:
        kafka: librdkafka properties.
        topic: what to read.
        group: consumer group.
        from_end: True to start every assigned partition at its high watermark, whatever was committed.
        on_assigned: called with new partitions, before any of their records is returned.
        on_revoked: called with partitions that go to another member; they may still be committed.
        on_lost: called with partitions that another member has already.
        on_uncommitted: called when a commit has failed, so that the next includes what it covered.
    """

    def __init__(
        self,
        kafka: KafkaSettings,
        topic: str,
        group: str,
        *,
        from_end: bool,
        on_assigned: Partitions,
        on_revoked: Partitions,
        on_lost: Partitions,
        on_uncommitted: Callable[[], None] = lambda: None,
    ) -> None:
        self._topic = topic
        self._group = group
        self._from_end = from_end
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._on_lost = on_lost
        self._on_uncommitted = on_uncommitted
        self._raised: Exception | None = None
        self._monitor = BrokerMonitor()
        settings = {**consumer_settings(kafka, group), **self._monitor.settings, "on_commit": self._committed}
        self._consumer = Consumer(settings)
        self._consumer.subscribe([topic], on_assign=self._assign, on_revoke=self._revoke, on_lost=self._lost)

    def read(self, limit: int) -> list[Message]:
        """What is there now, `limit` records at most."""
        try:
            messages = self._consumer.consume(limit, 0)
        except KafkaException as error:
            raise self._ended(error.args[0]) from error
        return self._checked(messages)

    def wait(self, seconds: float) -> list[Message]:
        """The next record, as soon as there is one, or nothing after so many seconds."""
        # Not consume(), which would wait out its time even when there is a record.
        message = self._consumer.poll(seconds)
        return self._checked([] if message is None else [message])

    def commit(self, offsets: dict[int, int]) -> None:
        """Commits offsets by partition in the background; a failure is reported to `on_uncommitted`."""
        if not offsets:
            return
        try:
            self._consumer.commit(offsets=self.positions(offsets), asynchronous=True)
        except KafkaException as error:
            self._uncommitted(error.args[0])

    def commit_now(self, offsets: dict[int, int], seconds: float) -> bool:
        """Commits offsets by partition, waits, and returns whether it is known that they are committed.

        A failure is logged, and what it covers is read again.
        """
        error = commit_now(self._consumer, self.positions(offsets), self._topic, seconds) if offsets else None
        if error is not None:
            self._uncommitted(error)
        return error is None

    @property
    def place_in_group(self) -> Any:
        """As a transaction takes it, and as it is now."""
        return self._consumer.consumer_group_metadata()

    def committed(self, partitions: Sequence[int]) -> list[TopicPartition]:
        """What is committed of partitions, with the metadata; a negative offset where nothing is.

        A transaction that may still commit them is waited for; `RolledBackError` if no broker answers in time.
        """
        try:
            found = self._consumer.committed(self._places(partitions), timeout=ANSWER_SECONDS)
        except KafkaException as error:
            raise RolledBackError(
                f"the committed offsets of {self._topic} are not known: {error.args[0].str()}"
            ) from error
        for each in found:
            if each.error is not None:
                raise RolledBackError(f"the committed offset of {self._topic} is not known: {each.error.str()}")
        return found

    def starts(self, partitions: Sequence[int]) -> list[TopicPartition]:
        """Where reading of partitions begins: what is `committed`, or the first offset where nothing is."""
        found = self.committed(partitions)
        try:
            for each in found:
                if each.offset < 0:
                    each.offset, _ = watermarks(self._consumer, each, ANSWER_SECONDS)
        except KafkaException as error:
            raise RolledBackError(f"where {self._topic} begins is not known: {error.args[0].str()}") from error
        return found

    def pause(self, partitions: Iterable[int]) -> None:
        """Reads nothing more of partitions until `resume`, or until they are revoked and assigned again."""
        self._consumer.pause(self._places(partitions))

    def resume(self, partitions: Iterable[int]) -> None:
        self._consumer.resume(self._places(partitions))

    def rewind(self, partitions: Sequence[int]) -> None:
        """Reads partitions that are held once more, from the offsets that are committed."""
        held = self._places(partitions)
        self._consumer.incremental_unassign(held)
        self._consumer.incremental_assign(held)
        self._consumer.resume(held)

    @property
    def unread(self) -> bool:
        """Whether records wait to be read, as far as is known."""
        return self._monitor.unread

    @property
    def member(self) -> Consumer:
        """Commits for other topics as a member of the group; failures in the background go to `on_uncommitted`."""
        return self._consumer

    def close(self) -> None:
        """Leaves the group; partitions that are still held are reported as revoked."""
        with bounded(HANG_S, f"close() of the consumer of {self._topic}"):
            self._consumer.close()
        if self._raised is not None:
            logger.warning("while leaving %s: %s", self._topic, self._raised)

    def _checked(self, messages: list[Message]) -> list[Message]:
        if self._raised is not None:
            # An exception that crosses librdkafka's callbacks loses its type and its place; kept, it loses neither.
            raised, self._raised = self._raised, None
            raise raised
        if self._monitor.lost:
            raise BrokerError(f"reading {self._topic} cannot go on: {LOST}")
        for message in messages:
            if message.error() is not None:
                return [message for message in messages if not self._is_error(message)]
        return messages

    def _is_error(self, message: Message) -> bool:
        error = message.error()
        if error is None:
            return False
        if error.fatal() or error.code() in _FINAL:
            raise self._ended(error)
        logger.warning("reading %s: %s", self._topic, error.str())
        return True

    def _ended(self, error: KafkaError) -> BrokerError:
        if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            return AccessError(f"group {self._group} may not be joined by this user: {remedy()}")
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return AccessError(f"topic {self._topic} may not be read by this user: {remedy()}")
        if error.code() in (KafkaError.FENCED_INSTANCE_ID, KafkaError._FATAL):
            return BrokerError(
                f"reading {self._topic} cannot go on: {error.str()}; a restart goes on from what is committed"
            )
        return BrokerError(
            f"reading {self._topic} cannot go on: {error.str()}; check that the topic exists and may be read"
        )

    def _assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        def assign() -> None:
            if self._from_end:
                for partition in partitions:
                    _, partition.offset = watermarks(consumer, partition, ANSWER_SECONDS)
            consumer.incremental_assign(partitions)
            # What was paused when it was revoked would come back paused.
            consumer.resume(partitions)
            self._on_assigned([partition.partition for partition in partitions])

        self._guarded(assign)

    def _revoke(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._guarded(lambda: self._on_revoked([partition.partition for partition in partitions]))

    def _lost(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        logger.warning("partitions %s of %s were lost to others", [p.partition for p in partitions], self._topic)
        self._guarded(lambda: self._on_lost([partition.partition for partition in partitions]))

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except (SpoutSdkError, KafkaException) as error:
            self._raised = error

    def _committed(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        failed = error or next((each.error for each in partitions if each.error is not None), None)
        if failed is not None and failed.code() != KafkaError._NO_OFFSET:
            self._uncommitted(failed)

    def _uncommitted(self, error: KafkaError) -> None:
        level = logging.INFO if error.code() in _REGROUPING else logging.WARNING
        logger.log(level, "offsets of %s were not committed yet: %s", self._topic, error.str())
        self._on_uncommitted()

    def positions(self, offsets: Mapping[int, int], metadata: Mapping[int, str] | None = None) -> list[TopicPartition]:
        """Offsets and metadata by partition, as a commit takes them."""
        beside = metadata or {}
        return [
            TopicPartition(self._topic, partition, offset, beside.get(partition, ""))
            for partition, offset in offsets.items()
        ]

    def _places(self, partitions: Iterable[int]) -> list[TopicPartition]:
        return [TopicPartition(self._topic, partition) for partition in partitions]

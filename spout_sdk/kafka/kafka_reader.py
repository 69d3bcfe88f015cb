"""Reading from Kafka: a consumer in a component's group, what its errors mean, and the metadata of its commits."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, Message, TopicPartition

from kafka_clients.access import remedy
from kafka_clients.group_consumer import FENCED, FINAL, GroupConsumer
from kafka_clients.librdkafka_bugs import LOST
from kafka_clients.log_reader import watermarks
from spout_sdk.errors import AccessError, BrokerError, RolledBackError, SpoutSdkError, UnsupportedVersionError
from spout_sdk.kafka.kafka_settings import KafkaSettings, consumer_settings

ANSWER_SECONDS: Final = 10.0
LARGEST_METADATA: Final = 4_096  # bytes of the metadata of a committed offset that Kafka takes unless set otherwise
_METADATA_VERSION: Final = "1"  # of the metadata of a committed offset: a version, a name, and a text

_FINAL: Final = FINAL | {KafkaError.UNKNOWN_TOPIC_OR_PART}

# What is fetched ahead of a partition. A pause drops it, and it is fetched again: by default 64 MB. With 8 MB a fast
# bolt reads as fast, since a client with a full queue looks again after 50 ms.
_AHEAD: Final[dict[str, Any]] = {"queued.max.messages.kbytes": 8_192}

Partitions = Callable[[Sequence[int]], None]
"""Called with partition numbers."""


class KafkaReader(GroupConsumer):
    """The records of one topic, of the partitions that the group gives to this process.

    Args:
        from_end: True to start every assigned partition at its high watermark, whatever was committed.
        on_assigned: called with new partitions, before any of their records is returned.
        on_revoked: called with partitions that go to another member; they may still be committed.
        on_lost: called with partitions that another member has already.
        instance: name of this process as a static member of the group; a dynamic one unless given.
    """

    _KEPT = (SpoutSdkError, KafkaException)
    _RECOVERABLE = (RolledBackError,)

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
        instance: str | None = None,
    ) -> None:
        super().__init__({**_AHEAD, **consumer_settings(kafka, group, instance)}, topic, instance)
        self._topic = topic
        self._group = group
        self._from_end = from_end
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._on_lost = on_lost
        self._subscribe(topic, self._assign, self._revoke, self._take_away)

    def read(self, limit: int) -> list[Message]:
        """The records that are available now, `limit` at most."""
        try:
            messages = self._consumer.consume(limit, 0)
        except KafkaException as error:
            raise self._ended(error.args[0]) from error
        return self._checked(messages)

    def wait(self, seconds: float) -> list[Message]:
        """The next record as soon as there is one, or none after `seconds`."""
        # Not consume(), which would wait out its time even when there is a record.
        message = self._consumer.poll(seconds)
        return self._checked([] if message is None else [message])

    def commit(self, offsets: dict[int, int]) -> None:
        """Commits offsets by partition in the background, if they have changed since the last commit."""
        self.commit_changed(self.positions(offsets))

    def commit_now(self, offsets: dict[int, int], seconds: float) -> bool:
        """Commits offsets by partition, waits, and returns whether it is known that they are committed.

        A failure is logged, and what it covers is read again.
        """
        return not offsets or self.commit_and_wait(self.positions(offsets), seconds)

    @property
    def place_in_group(self) -> Any:
        """As a transaction takes it, and as it is now; `RolledBackError` if this process is no member of its group.

        Kafka does not check the group of a transaction that names neither member nor generation.
        """
        place = self._consumer.consumer_group_metadata()
        # Asked afterwards: a member that was removed is a member again only after a poll of this thread.
        if not self._consumer.memberid():
            raise RolledBackError(f"this process is no longer a member of group {self._group}")
        return place

    def committed(self, partitions: Sequence[int]) -> list[TopicPartition]:
        """Committed offsets of partitions, with their metadata; a negative offset where there is none.

        A transaction that may still commit them is waited for; `RolledBackError` if no broker answers in time.
        """
        try:
            offsets = self._consumer.committed(self._places(partitions), timeout=ANSWER_SECONDS)
        except KafkaException as error:
            raise RolledBackError(
                f"the committed offsets of {self._topic} are not known: {error.args[0].str()}"
            ) from error
        for each in offsets:
            if each.error is not None:
                raise RolledBackError(f"the committed offset of {self._topic} is not known: {each.error.str()}")
        return offsets

    def starts(self, partitions: Sequence[int]) -> list[TopicPartition]:
        """Where reading of partitions begins: what is `committed`, or the first offset where nothing is."""
        offsets = self.committed(partitions)
        try:
            for each in offsets:
                if each.offset < 0:
                    each.offset, _ = watermarks(self._consumer, each, ANSWER_SECONDS)
        except KafkaException as error:
            raise RolledBackError(f"where {self._topic} begins is not known: {error.args[0].str()}") from error
        return offsets

    def pause(self, partitions: Iterable[int]) -> None:
        """Reads nothing more of partitions until `resume`, or until they are revoked and assigned again."""
        self._consumer.pause(self._places(partitions))

    def resume(self, partitions: Iterable[int]) -> None:
        self._consumer.resume(self._places(partitions))

    def rewind(self, partitions: Sequence[int], offsets: Mapping[int, int]) -> None:
        """Reads partitions that are held once more, from these offsets, or from those that are committed."""
        held = self._places(partitions)
        self._consumer.incremental_unassign(held)
        for each in held:
            each.offset = offsets.get(each.partition, OFFSET_INVALID)
        self._consumer.incremental_assign(held)
        self._consumer.resume(held)

    @property
    def unread(self) -> int:
        """Records that wait to be read, as far as was known up to five seconds ago."""
        return self._monitor.unread

    def _checked(self, messages: list[Message]) -> list[Message]:
        self._raise_kept()
        if self.lost:
            raise BrokerError(f"reading {self._topic} cannot continue: {LOST}")
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
        self._logger.warning("reading %s: %s", self._topic, error.str())
        return True

    def _ended(self, error: KafkaError) -> BrokerError:
        if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            return AccessError(f"group {self._group} may not be joined by this user: {remedy()}")
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return AccessError(f"topic {self._topic} may not be read by this user: {remedy()}")
        if error.code() in FENCED:
            return BrokerError(
                f"reading {self._topic} cannot continue: {error.str()}; a restart continues from what is committed"
            )
        return BrokerError(
            f"reading {self._topic} cannot continue: {error.str()}; check that the topic exists and may be read"
        )

    def _assign(self, partitions: list[TopicPartition]) -> None:
        if self._from_end:
            for partition in partitions:
                _, partition.offset = watermarks(self._consumer, partition, ANSWER_SECONDS)
        self._last_commits.clear()  # others may have committed meanwhile
        self._consumer.incremental_assign(partitions)
        # What was paused when it was revoked would come back paused.
        self._consumer.resume(partitions)
        self._on_assigned([partition.partition for partition in partitions])

    def _revoke(self, partitions: list[TopicPartition]) -> None:
        self._on_revoked([partition.partition for partition in partitions])

    def _take_away(self, partitions: list[TopicPartition]) -> None:
        numbers = [partition.partition for partition in partitions]
        self._logger.warning("partitions %s of %s were lost to others", numbers, self._topic)
        self._on_lost(numbers)

    def positions(self, offsets: Mapping[int, int], metadata: Mapping[int, str] | None = None) -> list[TopicPartition]:
        """Offsets and metadata by partition, as a commit takes them."""
        texts = metadata or {}
        return [
            TopicPartition(self._topic, partition, offset, texts.get(partition, ""))
            for partition, offset in offsets.items()
        ]

    def _places(self, partitions: Iterable[int]) -> list[TopicPartition]:
        return [TopicPartition(self._topic, partition) for partition in partitions]


def commit_metadata(name: str, text: str) -> str:
    """The metadata of a committed offset, of `LARGEST_METADATA` bytes at most."""
    return f"{_METADATA_VERSION}:{name}={text}"


def read_commit_metadata(name: str, offset: int, metadata: str | None) -> str | None:
    """The text that was committed under a name; None where another program has committed."""
    version, _, named = (metadata or "").partition(":")
    text = named.removeprefix(f"{name}=")
    if text == named:
        return None
    if version != _METADATA_VERSION:
        raise UnsupportedVersionError(
            f"the commit at offset {offset} has metadata of version {version}, and this component reads version "
            f"{_METADATA_VERSION}: run the version that committed it, or a later one"
        )
    return text

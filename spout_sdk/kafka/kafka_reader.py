"""Reading from Kafka: a consumer in a component's group, and its commits."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, TopicPartition

from kafka_clients.group_consumer import GroupConsumer
from kafka_clients.librdkafka_bugs import STATISTICS_MS
from kafka_clients.log_reader import watermarks
from kafka_clients.repeated_lines import get_logger
from spout_sdk.errors import RolledBackError
from spout_sdk.kafka.kafka_settings import KafkaSettings, consumer_settings
from tuple_tree.commit_metadata import Commit

logger = get_logger("spout_sdk.kafka")

ANSWER_SECONDS: Final = 10.0

# Kilobytes that are fetched ahead of a partition. A pause drops them, and they are fetched again: by default 64 MB.
# With 8 MB a fast bolt reads as fast, since a client with a full queue looks again after 50 ms.
_AHEAD: Final[dict[str, Any]] = {"queued.max.messages.kbytes": 8_192}

_INBOX_STATISTICS_MS: Final = 1_000  # between two reports of unread records, which shuffle groupings follow

Partitions = Callable[[Sequence[int]], None]
"""Called with partition numbers."""

Commits = Mapping[Any, Commit]
"""Commits by topic and partition."""


def positions(commits: Commits) -> list[TopicPartition]:
    """Converts commits to the type of the client."""
    return [TopicPartition(topic, at, each.offset, each.metadata) for (topic, at), each in commits.items()]


class KafkaReader(GroupConsumer):
    """A member of a group that reads one topic, of the partitions that the group gives to this process.

    Args:
        from_end: True to start every assigned partition at its high watermark, whatever was committed.
        on_assigned: called with new partitions, before any of their records is returned.
        on_revoked: called with partitions that go to another member; they may still be committed.
        on_lost: called with partitions that another member has already.
        instance: name of this process as a static member of the group; a dynamic one unless given.
        is_new_instance: whether no process had that name before.

    Attributes:
        read_to: with `from_end`, partition → the offset after the last record that its user has handled.
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
        instance: str | None = None,
        is_new_instance: bool = False,
    ) -> None:
        super().__init__(
            {**_AHEAD, **consumer_settings(kafka, group, instance)},
            topic,
            instance,
            is_new_instance=is_new_instance,
            recoverable=(RolledBackError,),
            statistics_ms=STATISTICS_MS if from_end else _INBOX_STATISTICS_MS,
        )
        self._topic = topic
        self._from_end = from_end
        self._paused: set[int] = set()
        self.read_to: dict[int, int] = {}
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._on_lost = on_lost
        self.subscribe(topic, self._assign, self._revoke, self._take_away)

    def commit(self, commits: Commits, *, again: bool = False) -> None:
        """Commits in the background what has changed since the last commit, or all with `again`."""
        self.commit_changed(positions(commits), again=again)

    def commit_now(self, commits: Commits, seconds: float) -> bool:
        """Commits, waits, and returns whether the commit is known to have succeeded.

        A failure is logged, and the records that it covers are read again.
        """
        return not commits or self.commit_and_wait(positions(commits), seconds)

    def transaction_refused(self, error: RolledBackError, commits: Iterable[Commit]) -> None:
        """Limits the metadata of later commits, if the metadata of a transaction was too large."""
        reason = error.__cause__
        if isinstance(reason, KafkaException) and reason.args[0].code() == KafkaError.OFFSET_METADATA_TOO_LARGE:
            self.metadata_refused(len(each.metadata) for each in commits)

    @property
    def place_in_group(self) -> Any:
        """The current group metadata, for a transaction; raises `RolledBackError` if this process is not a member.

        Kafka does not check the group of a transaction that names neither member nor generation.
        """
        place = self.client.consumer_group_metadata()
        # Checked afterwards: a member that was removed is a member again only after a poll of this thread.
        if not self.client.memberid():
            raise RolledBackError(f"this process is no longer a member of group {self._group}")
        return place

    def committed(self, partitions: Sequence[int]) -> list[TopicPartition]:
        """Committed offsets of partitions, with their metadata; the offset is negative if none is committed.

        Waits for a transaction that may still commit them; raises `RolledBackError` if no broker answers in time.
        """
        try:
            offsets = self.client.committed(self._places(partitions), timeout=ANSWER_SECONDS)
        except KafkaException as error:
            raise RolledBackError(
                f"the committed offsets of {self._topic} are not known: {error.args[0].str()}"
            ) from error
        for each in offsets:
            if each.error is not None:
                raise RolledBackError(f"the committed offset of {self._topic} is not known: {each.error.str()}")
        return offsets

    def place(self, partition: int) -> tuple[str, int]:
        """Topic and number of a partition."""
        return self._topic, partition

    def starts(self, partitions: Sequence[int]) -> list[TopicPartition]:
        """The offsets from which partitions are read: the committed ones, or the first if none is committed."""
        offsets = self.committed(partitions)
        try:
            for each in offsets:
                if each.offset < 0:
                    each.offset, _ = watermarks(self.client, each, ANSWER_SECONDS)
        except KafkaException as error:
            raise RolledBackError(f"where {self._topic} begins is not known: {error.args[0].str()}") from error
        return offsets

    def pause(self, partitions: Iterable[int]) -> None:
        """Reads nothing more of partitions until `resume`, or until they are revoked and assigned again."""
        self.client.pause(self._places(numbers := [*partitions]))
        self._paused.update(numbers)

    def resume(self, partitions: Iterable[int]) -> None:
        self.client.resume(self._places(numbers := [*partitions]))
        self._paused.difference_update(numbers)

    def rewind(self, partitions: Sequence[int], offsets: Mapping[int, int]) -> None:
        """Reads assigned partitions again, from these offsets, or from the committed ones."""
        held = self._places(partitions)
        self.client.incremental_unassign(held)
        for each in held:
            each.offset = offsets.get(each.partition, OFFSET_INVALID)
        self.client.incremental_assign(held)
        self.client.resume(held)
        self._paused.difference_update(partitions)

    def unread_of(self, partition: int) -> int:
        """Records of a partition that are not read yet, by the last report of the client."""
        known = self._monitor.unused if partition in self._paused else self._monitor.unread
        return known.get((self._topic, partition), 0)

    def _assign(self, partitions: list[TopicPartition]) -> None:
        if self._from_end:
            for partition in partitions:
                _, partition.offset = watermarks(self.client, partition, ANSWER_SECONDS)
                self.read_to[partition.partition] = partition.offset
        self.forget_commits()  # others may have committed meanwhile
        self.client.incremental_assign(partitions)
        # A partition that was paused when it was revoked would come back paused.
        self.client.resume(partitions)
        self._paused.difference_update(partition.partition for partition in partitions)
        self._on_assigned([partition.partition for partition in partitions])

    def _revoke(self, partitions: list[TopicPartition]) -> None:
        self._on_revoked([partition.partition for partition in partitions])

    def _take_away(self, partitions: list[TopicPartition]) -> None:
        numbers = [partition.partition for partition in partitions]
        logger.warning("partitions %s of %s were lost to others", numbers, self._topic)
        self._on_lost(numbers)

    def _places(self, partitions: Iterable[int]) -> list[TopicPartition]:
        return [TopicPartition(self._topic, partition) for partition in partitions]

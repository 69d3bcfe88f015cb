"""The messages of a spout's source that were read and are not done: where each is, and what each event does to it.

A message is open from its first emit until it is done. If it fails, it waits until it is due, is read again by its
position, and is emitted again, or becomes a dead letter if it is exhausted. When it ends, it may wait for the delivery
of its outcome; then it is done. Only numbers are kept of messages that have not failed: payloads are read again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from tuple_tree.commit_metadata import Commit
from tuple_tree.messages import FailReason, Failure
from tuple_tree.positions import MAX_OFFSET
from tuple_tree.retry_queues import FREQUENT, HANGING, PROMPT, Due, RetryQueues
from tuple_tree.source_partition import FailedMessage, OwnedPartition

AGAIN_SECONDS: Final = 1.0  # after which a failed request is tried again
_OFTEN: Final = 4  # failures after which a message no longer precedes new messages
_HANGS: Final = frozenset((FailReason.TIMEOUT, FailReason.TOO_OLD, FailReason.LOST))


class Begun(NamedTuple):
    """Facts of an open message for its outcome: its key, and when it was emitted first, in milliseconds."""

    key: bytes | None
    first_emit: int


class SourceMessages:
    """The messages of a task; a key has the number of a partition and an offset.

    Args:
        delay: returns the seconds from a failure to the next delivery, by the number of failures; None for no delivery.

    Attributes:
        begun: open messages, if outcomes are written.
        undelivered: messages that have ended → how many of their records are not delivered.
    """

    def __init__(self, delay: Callable[[int], float | None]) -> None:
        self._delay = delay
        self._named: dict[Any, OwnedPartition] = {}
        self._numbered: dict[int, OwnedPartition] = {}
        self._queues = RetryQueues()
        self._most_failed: tuple[int, FailedMessage] | None = None
        self.begun: dict[int, Begun] = {}
        self.undelivered: dict[int, int] = {}

    # Partitions

    def add(self, partition: OwnedPartition) -> None:
        """Adds a partition, with what earlier owners have committed."""
        self._named[partition.at] = self._numbered[partition.number] = partition

    def __iter__(self) -> Iterator[OwnedPartition]:
        return iter(self._numbered.values())

    def __contains__(self, number: object) -> bool:
        return number in self._numbered

    def named(self, topic: str | None, partition: int | None) -> OwnedPartition:
        return self._named[topic, partition]

    def at(self, key: int) -> tuple[OwnedPartition, int]:
        """The partition and the offset of a message."""
        return self._numbered[key // MAX_OFFSET], key % MAX_OFFSET

    def skip_to(self, ends: Mapping[Any, int]) -> None:
        """Skips to ends of logs, which have no message between the last one that was started and their end."""
        for at, end in ends.items():
            self._named[at].skip_to(end)

    @property
    def open_count(self) -> int:
        """Messages that are open: pending, failed, or waiting for their dead letter or outcome."""
        return sum(each.offsets.open_count for each in self)

    # Progress

    def commits(self, room: int) -> dict[Any, Commit]:
        """The next commit of each partition, with at most `room` bytes of metadata."""
        return {each.at: each.next_commit().made(room) for each in self}

    def committed(self) -> None:
        """The result of the last `commits` is committed."""
        for each in self:
            each.committed()

    @property
    def progress_key(self) -> list[Any]:
        """A value that changes whenever the result of `commits` changes."""
        return [each.progress_key for each in self]

    def trim(self) -> None:
        """Gives back the offsets that were reserved and not emitted."""
        for each in self:
            each.trim()

    # Events

    def failed(self, key: int, failure: Failure, now: float) -> None:
        """A message has failed: it is due later, or exhausted."""
        partition, offset = self.at(key)
        if (message := partition.failed.get(offset)) is None:
            message = partition.failed[offset] = FailedMessage()
        self._close(message)
        message.failures += 1
        message.attempt += 1
        message.last = failure
        if self._most_failed is None or message.failures >= self._most_failed[1].failures:
            self._most_failed = key, message
        delay = self._delay(message.failures)
        if delay is None:
            delay, text = 0.0, f": {failure.message}" if failure.message else ""
            message.exhausted = (
                f"all {message.failures} attempts failed, the last one with reason {failure.reason.word}{text}"
            )
        is_often = message.failures >= _OFTEN
        message.kind = HANGING if failure.reason in _HANGS else FREQUENT if is_often else PROMPT
        if message.exhausted:
            message.kind = PROMPT
        self._queues.wait(key, message.kind, now + delay)

    def read_again(self, key: int, record: Any) -> str:
        """A failed message was read by its position: it is due. If it is exhausted, returns why, and it is not."""
        message = self.failed_at(key)
        if not message.exhausted:
            self._queues.read(key, message.kind, record)
        return message.exhausted

    def postpone(self, key: int, now: float) -> None:
        """A failed message cannot be read or emitted now: it is read again a second later."""
        self._queues.wait(key, self.failed_at(key).kind, now + AGAIN_SECONDS)

    def emitted_again(self, key: int) -> None:
        message = self.failed_at(key)
        if message.kind != PROMPT:
            message.is_open = True
            self._queues.emitted(message.kind)

    def ended(self, key: int, records: int) -> tuple[Begun | None, FailedMessage]:
        """A message has ended, and `records` about it are sent: it is done when these are delivered.

        Returns what is known about it.
        """
        partition, offset = self.at(key)
        self.undelivered[key] = records
        return self.begun.pop(key, None), partition.failed.get(offset) or FailedMessage()

    def delivered(self, key: int) -> None:
        """A record about a message that has ended is delivered."""
        self.undelivered[key] -= 1
        if not self.undelivered[key]:
            del self.undelivered[key]
            self.done([key])

    def done(self, keys: Sequence[int]) -> None:
        """Messages are done: nothing is kept of them."""
        column = np.array(keys, np.int64)
        numbers, offsets = column // MAX_OFFSET, column % MAX_OFFSET
        for number in sorted({*numbers.tolist()}):
            for message in self._numbered[number].done(offsets[numbers == number].tolist()):
                self._close(message)
                if self._most_failed is not None and self._most_failed[1] is message:
                    self._most_failed = None

    # Retries

    def take_due(self, calls: int, limit: int, *, has_new: bool) -> list[Due]:
        """Takes failed messages to be emitted now, as `RetryQueues.take` says."""
        return self._queues.take(calls, limit, has_new=has_new)

    def next_round(self, now: float) -> dict[Any, list[int]]:
        """Takes failed messages to be read again: partition → offsets, in rising order."""
        return {self._numbered[number].at: offsets for number, offsets in self._queues.next_round(now).items()}

    def is_due(self, now: float) -> bool:
        """Whether failed messages can be read or emitted now."""
        return self._queues.is_due(now)

    @property
    def waiting(self) -> int:
        """Messages that wait to be emitted again, and are not being read."""
        return len(self._queues)

    @property
    def most_failed(self) -> tuple[int, FailedMessage] | None:
        """The message that has failed most often, with its key, until it is done; any thread may read it."""
        return self._most_failed

    def failed_at(self, key: int) -> FailedMessage:
        partition, offset = self.at(key)
        return partition.failed[offset]

    def _close(self, message: FailedMessage) -> None:
        if message.is_open:
            message.is_open = False
            self._queues.ended(message.kind)

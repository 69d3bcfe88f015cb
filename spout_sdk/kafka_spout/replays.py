"""Messages that failed: how often, when they are due, and reading them again by their positions."""

import heapq
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from spout_sdk.api.components import Failure
from spout_sdk.emitting.dead_letters import DeadLetters
from spout_sdk.emitting.environment import TaskScope
from spout_sdk.kafka_spout.partitions import OwnedPartitions
from spout_sdk.kafka_spout.settings import RetryPolicy
from spout_sdk.kafka_spout.source import Fetched, Source, SourcePartition
from spout_sdk.records import MadeRecord, Record
from tuple_tree.errors import WireError

logger = logging.getLogger("spout_sdk.kafka_spout")

ROUND: Final = 200  # messages that are read again in one go, at most
REACH: Final = 1_000  # offsets of a partition between the first and the last of these
AGAIN_SECONDS: Final = 1.0  # after which what could not be done is tried again
_ROUNDING_S: Final = 1e-6  # what adding delays to times in floating point may be off


class SourceDeadLetters(DeadLetters):
    """Sends dead letters of a task; their messages are done once these were delivered."""

    def __init__(self, scope: TaskScope, done: Callable[[int], None]) -> None:
        super().__init__(scope)
        self._done = done

    def send(self, key: int, record: Record, error: WireError) -> None:
        """Makes a dead letter of a message, and logs where it lies and why."""
        where = f"{record.topic()}[{record.partition()}] offset {record.offset()}"
        logger.warning("%s: %s becomes a dead letter: %s", self._by, where, error)
        self.send_record(record, error, partial(self._done, key))


class RetrySchedule:
    """What has to be delivered again, by due time; equal times in the order in which they were scheduled."""

    __slots__ = ("_due_at", "_heap", "_number")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, int]] = []
        self._due_at: dict[int, tuple[float, int]] = {}
        self._number = 0

    def put(self, key: int, due_at: float) -> None:
        """Schedules or moves a key."""
        self._number += 1
        self._due_at[key] = (due_at, self._number)
        heapq.heappush(self._heap, (due_at, self._number, key))

    def take(self, now: float, limit: int) -> list[int]:
        """Takes off what is due, the longest due first, `limit` keys at most."""
        taken: list[int] = []
        heap = self._heap
        due = now + _ROUNDING_S
        while heap and heap[0][0] <= due and len(taken) < limit:
            due_at, number, key = heapq.heappop(heap)
            # An entry that was moved or removed is left in the heap until it comes up.
            if self._due_at.get(key) == (due_at, number):
                del self._due_at[key]
                taken.append(key)
        return taken

    def is_due(self, now: float) -> bool:
        return bool(self._heap) and self._heap[0][0] <= now + _ROUNDING_S

    def __len__(self) -> int:
        return len(self._due_at)


class Replays:
    """The failed messages of a task."""

    def __init__(
        self, policy: RetryPolicy, partitions: OwnedPartitions, source: Source, dead_letters: SourceDeadLetters
    ) -> None:
        self._policy = policy
        self._partitions = partitions
        self._source = source
        self._dead_letters = dead_letters
        self._schedule = RetrySchedule()
        self._failures: dict[int, int] = {}
        self._given_up: dict[int, str] = {}
        self._is_fetching = False
        self.ready: deque[tuple[int, Record]] = deque()

    def failed(self, key: int, failure: Failure, now: float) -> None:
        """A message has failed once more: it is due later, or given up."""
        failures = self._failures.get(key, 0) + 1
        self._failures[key] = failures
        delay = self._policy.delay(failures)
        if delay is None:
            message = f": {failure.message}" if failure.message else ""
            self._given_up[key] = (
                f"all {failures} attempts failed, the last one with reason {failure.reason.word}{message}"
            )
            delay = 0.0
        self._schedule.put(key, now + delay)

    @property
    def is_empty(self) -> bool:
        return not self._failures

    def done(self, key: int) -> None:
        if self._failures:
            self._failures.pop(key, None)
            self._given_up.pop(key, None)

    def failures(self, key: int) -> int:
        return self._failures.get(key, 0)

    def postpone(self, key: int, now: float) -> None:
        """A message that was ready cannot be emitted yet."""
        self._schedule.put(key, now + AGAIN_SECONDS)

    def tick(self, now: float) -> None:
        """Begins to read what is due, or takes what was read."""
        if self._is_fetching:
            fetched = self._source.fetched(now)
            if fetched is None:
                self._is_fetching = False
            else:
                self._take(fetched, now)
        elif self._schedule and not self.ready:
            self._fetch(now)

    def is_due(self, now: float) -> bool:
        return bool(self.ready) or self._is_fetching or self._schedule.is_due(now)

    def __len__(self) -> int:
        return len(self._schedule) + len(self.ready)

    def _fetch(self, now: float) -> None:
        """Of each partition, only what one read reaches."""
        wanted: dict[SourcePartition, list[int]] = {}
        for key in sorted(self._schedule.take(now, ROUND)):
            each, offset = self._partitions.at(key)
            offsets = wanted.setdefault(each.at, [])
            if offsets and offset >= offsets[0] + REACH:
                self._schedule.put(key, now)
            else:
                offsets.append(offset)
        if wanted:
            self._source.fetch(wanted, now)
            self._is_fetching = True

    def _take(self, fetched: Fetched, now: float) -> None:
        for record in fetched.records:
            key = self._partitions.key(record.topic(), record.partition(), record.offset())
            why = self._given_up.get(key)
            if why is None:
                self.ready.append((key, record))
            else:
                self._dead_letters.send(key, record, WireError("retries-exhausted", why))
        for at, offset in fetched.gone:
            key = self._partitions.key(*at, offset)
            why = self._given_up.get(key, "it failed, and was to be delivered again")
            detail = f"the source has no message at this offset any more (retention or compaction); {why}"
            self._dead_letters.send(key, MadeRecord(*at, offset), WireError("gone", detail))
        for at, offset in fetched.unread:
            self.postpone(self._partitions.key(*at, offset), now)

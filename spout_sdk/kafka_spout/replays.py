"""Messages that failed: how often, when they are due, and reading them again by their positions."""

from collections import deque
from typing import Final

from spout_sdk.api.components import Failure
from spout_sdk.kafka_spout.dead_letters import SourceDeadLetters
from spout_sdk.kafka_spout.partitions import OwnedPartitions
from spout_sdk.kafka_spout.retry import RetryPolicy, RetrySchedule
from spout_sdk.kafka_spout.source import Fetched, Source, SourcePartition
from spout_sdk.records import NoRecord, Record
from tuple_tree.errors import WireError

ROUND: Final = 200
"""Messages that are read again in one go, at most."""

REACH: Final = 1_000
"""Offsets of a partition between the first and the last of these."""

AGAIN_SECONDS: Final = 1.0
"""What could not be done is tried again after this time."""


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
            said = f": {failure.message}" if failure.message else ""
            self._given_up[key] = (
                f"all {failures} attempts failed, the last one with reason {failure.reason.word}{said}"
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
        """Begins to read what is due, or hears what was read."""
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
            self._dead_letters.send(key, NoRecord(*at, offset), WireError("gone", detail))
        for at, offset in fetched.unread:
            self.postpone(self._partitions.key(*at, offset), now)

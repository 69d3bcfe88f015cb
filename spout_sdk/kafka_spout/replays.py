"""Messages that failed: how often, when they are due, and reading them again by their positions."""

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

from spout_sdk.api.components import Failure
from spout_sdk.kafka_spout.kafka_source import KafkaSource
from spout_sdk.kafka_spout.partitions import Fetched, OwnedPartitions, SourcePartition
from spout_sdk.kafka_spout.spout import RetryPolicy
from spout_sdk.records import MadeRecord, Record
from tuple_tree.errors import WireError

ROUND: Final = 200  # messages that are read again in one go, at most
REACH: Final = 1_000  # offsets of a partition between the first and the last of these
AGAIN_SECONDS: Final = 1.0  # after which what could not be done is tried again
_ROUNDING_S: Final = 1e-6  # what adding delays to times in floating point may be off


class Replays:
    """The failed messages of a task; `reject` makes a dead letter of one."""

    def __init__(
        self,
        policy: RetryPolicy,
        partitions: OwnedPartitions,
        source: KafkaSource,
        reject: Callable[[int, Record, WireError], None],
    ) -> None:
        self._policy = policy
        self._partitions = partitions
        self._source = source
        self._reject = reject
        # When what waits is due, by key, and a heap of these times with their keys; what was moved is in it twice.
        self._due_at: dict[int, float] = {}
        self._heap: list[tuple[float, int]] = []
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
        self._schedule(key, now + delay)

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
        self._schedule(key, now + AGAIN_SECONDS)

    def tick(self, now: float) -> None:
        """Begins to read what is due, or takes what was read."""
        if self._is_fetching:
            fetched = self._source.fetched(now)
            if fetched is None:
                self._is_fetching = False
            else:
                self._take(fetched, now)
        elif self._heap and not self.ready:
            self._fetch(now)

    def is_due(self, now: float) -> bool:
        return bool(self.ready) or self._is_fetching or (bool(self._heap) and self._heap[0][0] <= now + _ROUNDING_S)

    def __len__(self) -> int:
        return len(self._due_at) + len(self.ready)

    def _schedule(self, key: int, due_at: float) -> None:
        self._due_at[key] = due_at
        heappush(self._heap, (due_at, key))

    def _fetch(self, now: float) -> None:
        """Begins to read what is due, the longest due first; of each partition, only what one read reaches."""
        due: list[int] = []
        while self._heap and self._heap[0][0] <= now + _ROUNDING_S and len(due) < ROUND:
            due_at, key = heappop(self._heap)
            if self._due_at.get(key) == due_at:
                del self._due_at[key]
                due.append(key)
        wanted: dict[SourcePartition, list[int]] = {}
        for key in sorted(due):
            each, offset = self._partitions.at(key)
            offsets = wanted.setdefault(each.at, [])
            if offsets and offset >= offsets[0] + REACH:
                self._schedule(key, now)
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
                self._reject(key, record, WireError("retries-exhausted", why))
        for at, offset in fetched.gone:
            key = self._partitions.key(*at, offset)
            why = self._given_up.get(key, "it failed, and was to be delivered again")
            detail = f"the source has no message at this offset any more (retention or compaction); {why}"
            self._reject(key, MadeRecord(*at, offset), WireError("gone", detail))
        for at, offset in fetched.unread:
            self.postpone(self._partitions.key(*at, offset), now)

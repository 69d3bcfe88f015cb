"""Messages that failed: how often, when they are due, and reading them again by their positions."""

from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Final

from spout_sdk.api.components import Failure
from spout_sdk.api.retry import RetryPolicy
from spout_sdk.kafka_spout.kafka_source import KafkaSource
from spout_sdk.kafka_spout.partitions import Fetched, OwnedPartitions, SourcePartition
from spout_sdk.records import MadeRecord, Record
from tuple_tree.errors import WireError

ROUND: Final = 200  # messages that are read again in one round, at most
REACH: Final = 1_000  # offsets of a partition between the first and the last of these
_OFTEN: Final = 4  # failures of a message, after which new ones do not wait for it
AGAIN_SECONDS: Final = 1.0  # after which a failed request is tried again
_ROUNDING_SECONDS: Final = 1e-6  # largest rounding error of a time plus a delay


class Replays:
    """The failed messages of a task; `reject` makes a dead letter of one.

    Attributes:
        ready: messages that were read, and can be emitted now; they precede new messages.
        poison: the same for messages that have failed often, which share calls with new messages.
    """

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
        self._waiting: list[tuple[float, int]] = []  # a heap: when a message is due, and its key
        self._given_up: dict[int, str] = {}
        self._is_fetching = self._is_odd = False
        self.ready: deque[tuple[int, Record]] = deque()
        self.poison: deque[tuple[int, Record]] = deque()
        self._open_poison: set[int] = set()

    def failed(self, key: int, failure: Failure, now: float) -> None:
        """Counts a failure of a message, which is due later, or is given up."""
        self._open_poison.discard(key)
        each, offset = self._partitions.at(key)
        failures = each.failed(offset)
        delay = self._policy.delay(failures)
        if delay is None:
            message = f": {failure.message}" if failure.message else ""
            self._given_up[key] = (
                f"all {failures} attempts failed, the last one with reason {failure.reason.word}{message}"
            )
            delay = 0.0
        heappush(self._waiting, (now + delay, key))

    def acked(self, keys: Sequence[int]) -> None:
        """Ends messages whose trees were fully processed."""
        self._open_poison.difference_update(keys)
        self._partitions.all_done(keys)

    def done(self, key: int) -> None:
        """Ends a message that was skipped, has become a dead letter, or has a delivered outcome."""
        self._open_poison.discard(key)
        self._given_up.pop(key, None)
        self._partitions.done(key)

    def share(self, calls: int, limit: int) -> int:
        """How many messages of `poison` may be emitted in a number of calls, while there are new messages.

        Half of the calls, and no more than half of the trees that may be open: messages that always
        fail do not stop others.
        """
        self._is_odd = not self._is_odd
        return max(0, min((calls + self._is_odd) // 2, max(1, limit // 2) - len(self._open_poison)))

    def emitted(self, key: int) -> None:
        """Notes that a message was emitted again."""
        each, offset = self._partitions.at(key)
        if each.failures(offset) >= _OFTEN:
            self._open_poison.add(key)

    def postpone(self, key: int, now: float) -> None:
        """Lets a message wait that was ready, but cannot be emitted yet."""
        heappush(self._waiting, (now + AGAIN_SECONDS, key))

    def tick(self, now: float) -> None:
        """Begins to read messages that are due, or takes messages that were read."""
        if self._is_fetching:
            fetched = self._source.fetched(now)
            if fetched is None:
                self._is_fetching = False
            else:
                self._take(fetched, now)
        elif self._waiting and not (self.ready or self.poison):
            self._fetch(now)

    def is_due(self, now: float) -> bool:
        return bool(self.ready or self.poison) or self._is_fetching or self._next_is_due(now)

    def __len__(self) -> int:
        return len(self._waiting) + len(self.ready) + len(self.poison)

    def _next_is_due(self, now: float) -> bool:
        return bool(self._waiting) and self._waiting[0][0] <= now + _ROUNDING_SECONDS

    def _fetch(self, now: float) -> None:
        """Begins to read due messages, the earliest first; of each partition, only those within `REACH` offsets."""
        due: list[int] = []
        while self._next_is_due(now) and len(due) < ROUND:
            due.append(heappop(self._waiting)[1])
        wanted: dict[SourcePartition, list[int]] = {}
        for key in sorted(due):
            each, offset = self._partitions.at(key)
            offsets = wanted.setdefault(each.at, [])
            if offsets and offset >= offsets[0] + REACH:
                heappush(self._waiting, (now, key))
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
                each, offset = self._partitions.at(key)
                (self.poison if each.failures(offset) >= _OFTEN else self.ready).append((key, record))
            else:
                self._reject(key, record, WireError("retries-exhausted", why))
        for at, offset in fetched.gone:
            key = self._partitions.key(*at, offset)
            why = self._given_up.get(key, "it has failed, and cannot be delivered again")
            detail = f"the source has no message at this offset any more (retention or compaction); {why}"
            self._reject(key, MadeRecord(*at, offset), WireError("gone", detail))
        for at, offset in fetched.unread:
            self.postpone(self._partitions.key(*at, offset), now)

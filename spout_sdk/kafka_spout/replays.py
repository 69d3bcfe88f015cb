"""Messages that failed: how often, when they are due, and reading them again by their positions."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final

from spout_sdk.api.retry import RetryPolicy
from spout_sdk.kafka_spout.kafka_source import KafkaSource
from spout_sdk.kafka_spout.partitions import Fetched, OwnedPartitions, SourcePartition
from spout_sdk.records import MadeRecord, Record
from spout_sdk.statistics.stats import NOT_FAILED, MostFailed
from tuple_tree.errors import WireError
from tuple_tree.messages import FailReason, Failure
from tuple_tree.process_stats import LARGEST_ERROR

ROUND: Final = 200  # messages that are read again in one round, at most
REACH: Final = 1_000  # offsets of a partition between the first and the last of these
AGAIN_SECONDS: Final = 1.0  # after which a failed request is tried again
_OFTEN: Final = 4  # failures after which a message no longer precedes new messages
_FIRST, _FREQUENT, _HANGING = range(3)
_HANGS: Final = frozenset((FailReason.TIMEOUT, FailReason.TOO_OLD, FailReason.LOST))
_ROUNDING_SECONDS: Final = 1e-6  # largest rounding error of a time plus a delay


@dataclass(slots=True, eq=False)
class _Queue:
    """The messages of one kind.

    Attributes:
        waiting: a heap: when a message is due, and its key.
        ready: messages that were read, and can be emitted now.
        open_count: how many of them are emitted, and have no outcome.
    """

    waiting: list[tuple[float, int]] = field(default_factory=list)
    ready: deque[tuple[int, Record]] = field(default_factory=deque)
    open_count: int = 0


class Replays:
    """The failed messages of a task; `reject` makes a dead letter of one.

    There are three kinds, and none waits for another: messages that have failed a few times, which precede new
    messages; messages that have failed often, which cost calls; and messages whose last tree has timed out, which cost
    a tree for a whole message timeout. The last two share calls with new messages, and each may have a quarter of the
    trees.

    Attributes:
        most_failed: the message that has failed most often, until it ends.
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
        self._queues = [_Queue(), _Queue(), _Queue()]
        self._rounds = deque(self._queues)  # the queue that was read last is the last one
        self._given_up: dict[int, str] = {}
        self._hanging: set[int] = set()
        self._open: dict[int, _Queue] = {}  # of emitted messages of the last two kinds
        self._most_open = 1
        self._is_fetching = False
        self._turn = 0
        self.most_failed = NOT_FAILED
        self._most_failed = -1  # its key

    def failed(self, key: int, failure: Failure, now: float) -> None:
        """Counts a failure of a message, which is due later, or is given up."""
        self._close(key)
        each, offset = self._partitions.at(key)
        failures = each.failed(offset)
        if failures >= self.most_failed.times:
            why = failure.message or failure.reason.word
            self.most_failed = MostFailed(
                f"{each.at} offset {offset}", failures, why[:LARGEST_ERROR], failure.component
            )
            self._most_failed = key
        delay = self._policy.delay(failures)
        if failure.reason in _HANGS:
            self._hanging.add(key)
        if delay is None:
            message = f": {failure.message}" if failure.message else ""
            self._given_up[key] = (
                f"all {failures} attempts failed, the last one with reason {failure.reason.word}{message}"
            )
            delay = 0.0
        self._wait(key, now + delay)

    def acked(self, keys: Sequence[int]) -> None:
        """Ends messages whose trees were fully processed."""
        for key in self._open.keys() & keys if self._open else ():
            self._close(key)
        if self._most_failed >= 0 and self._most_failed in keys:
            self._forget_most_failed()
        self._partitions.all_done(keys)

    def done(self, key: int) -> None:
        """Ends a message that was skipped, has become a dead letter, or has a delivered outcome."""
        self._close(key)
        if key == self._most_failed:
            self._forget_most_failed()
        self._given_up.pop(key, None)
        self._partitions.done(key)

    def take(self, calls: int, limit: int, *, has_new: bool) -> list[tuple[int, Record]]:
        """Takes messages to be emitted now, at most `calls`; `limit` trees may be open.

        Messages of the last two kinds leave half of the calls to new messages, if there are any.
        """
        first, *shared = self._queues
        taken = _popped(first.ready, calls)
        self._most_open = max(1, limit // 4)
        if any(queue.ready for queue in shared):
            self._turn += 1
            calls -= len(taken)
            if has_new:
                calls = (calls + self._turn % 2) // 2
            for queue in shared if self._turn & 2 else reversed(shared):
                some = _popped(queue.ready, min(calls, self._most_open - queue.open_count))
                calls -= len(some)
                taken += some
        return taken

    def emitted(self, key: int) -> None:
        """Notes that a message was emitted again."""
        queue = self._queue(key)
        self._hanging.discard(key)
        if queue is not self._queues[_FIRST]:
            self._open[key] = queue
            queue.open_count += 1

    def postpone(self, key: int, now: float) -> None:
        """Lets a message wait that was ready, but cannot be emitted yet."""
        self._wait(key, now + AGAIN_SECONDS)

    def tick(self, now: float) -> None:
        """Begins to read messages that are due, or takes messages that were read."""
        if self._is_fetching:
            fetched = self._source.fetched(now)
            if fetched is None:
                self._is_fetching = False
            else:
                self._take(fetched, now)
            return
        for queue in self._rounds:
            if _is_readable(queue, now):
                self._rounds.remove(queue)
                self._rounds.append(queue)
                self._source.fetch(self._round(queue.waiting, now), now)
                self._is_fetching = True
                return

    def is_due(self, now: float) -> bool:
        """Whether messages can be read or emitted now."""
        first, *shared = self._queues
        return (
            self._is_fetching
            or bool(first.ready)
            or any(queue.ready and queue.open_count < self._most_open for queue in shared)
            or any(_is_readable(queue, now) for queue in self._queues)
        )

    def __len__(self) -> int:
        return sum(len(queue.waiting) + len(queue.ready) for queue in self._queues)

    def _queue(self, key: int) -> _Queue:
        if key in self._given_up:
            return self._queues[_FIRST]
        if key in self._hanging:
            return self._queues[_HANGING]
        each, offset = self._partitions.at(key)
        return self._queues[_FIRST if each.failures(offset) < _OFTEN else _FREQUENT]

    def _forget_most_failed(self) -> None:
        self.most_failed, self._most_failed = NOT_FAILED, -1

    def _wait(self, key: int, due: float) -> None:
        heappush(self._queue(key).waiting, (due, key))

    def _close(self, key: int) -> None:
        self._hanging.discard(key)
        if (queue := self._open.pop(key, None)) is not None:
            queue.open_count -= 1

    def _round(self, waiting: list[tuple[float, int]], now: float) -> dict[SourcePartition, list[int]]:
        """Takes due messages, the earliest first; of each partition, only those within `REACH` offsets.

        The others keep their due times, so that a later round begins with them.
        """
        wanted: dict[SourcePartition, list[int]] = {}
        spans: dict[SourcePartition, tuple[int, int]] = {}
        others = []
        for _ in range(ROUND):
            if not waiting or waiting[0][0] > now + _ROUNDING_SECONDS:
                break
            due, key = heappop(waiting)
            each, offset = self._partitions.at(key)
            low, high = spans.get(each.at, (offset, offset))
            low, high = min(low, offset), max(high, offset)
            if high - low >= REACH:
                others.append((due, key))
                continue
            spans[each.at] = low, high
            wanted.setdefault(each.at, []).append(offset)
        for other in others:
            heappush(waiting, other)
        return {at: sorted(offsets) for at, offsets in wanted.items()}

    def _take(self, fetched: Fetched, now: float) -> None:
        for record in fetched.records:
            key = self._partitions.key(record.topic(), record.partition(), record.offset())
            why = self._given_up.get(key)
            if why is None:
                self._queue(key).ready.append((key, record))
            else:
                self._reject(key, record, WireError("retries-exhausted", why))
        for at, offset in fetched.gone:
            key = self._partitions.key(*at, offset)
            why = self._given_up.get(key, "it has failed, and cannot be delivered again")
            detail = f"the source has no message at this offset any more (retention or compaction); {why}"
            self._reject(key, MadeRecord(*at, offset), WireError("gone", detail))
        for at, offset in fetched.unread:
            self.postpone(self._partitions.key(*at, offset), now)


def _is_readable(queue: _Queue, now: float) -> bool:
    """Whether messages of a queue are due, and all that were read are emitted."""
    return not queue.ready and bool(queue.waiting) and queue.waiting[0][0] <= now + _ROUNDING_SECONDS


def _popped(ready: deque[tuple[int, Record]], most: int) -> list[tuple[int, Record]]:
    return [ready.popleft() for _ in range(min(most, len(ready)))]

"""When failed messages are due, and which of them are emitted next."""

from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, Final

from tuple_tree.positions import MAX_OFFSET

ROUND: Final = 200  # messages that are read again in one round, at most
REACH: Final = 1_000  # offsets of a partition between the first and the last of these
PROMPT, FREQUENT, HANGING = range(3)
"""Kinds of failed messages: a few failures; many, which cost calls; a last tree that has timed out."""
_ROUNDING_SECONDS: Final = 1e-6  # largest rounding error of a time plus a delay

Due = tuple[int, Any]
"""The key of a message, and its record."""


@dataclass(slots=True, eq=False)
class _Queue:
    """The messages of one kind.

    Attributes:
        waiting: a heap: when a message is due, and its key.
        due: messages that were read again, and can be emitted now.
        open_count: how many of them are emitted, and have no outcome.
    """

    waiting: list[tuple[float, int]] = field(default_factory=list)
    due: deque[Due] = field(default_factory=deque)
    open_count: int = 0

    def is_readable(self, now: float) -> bool:
        """Whether messages are to be read again, and all that were read are emitted."""
        return not self.due and bool(self.waiting) and self.waiting[0][0] <= now + _ROUNDING_SECONDS

    def take(self, most: int) -> list[Due]:
        return [self.due.popleft() for _ in range(min(most, len(self.due)))]


class RetryQueues:
    """The failed messages that wait, by kind: none waits for another kind.

    Messages of the first kind precede new messages. The others are quarantined: they share calls with new messages, and
    each kind may have a quarter of the trees, as one that hangs costs a tree for a whole message timeout.
    """

    def __init__(self) -> None:
        self._queues = [_Queue(), _Queue(), _Queue()]
        self._rounds = deque(self._queues)  # the queue that was read last is the last one
        self._most_open = 1
        self._turn = 0

    def wait(self, key: int, kind: int, until: float) -> None:
        """Adds a message, which is read again at a time."""
        heappush(self._queues[kind].waiting, (until, key))

    def next_round(self, now: float) -> dict[int, list[int]]:
        """Takes messages that are to be read again: partition number → offsets, in rising order."""
        for queue in self._rounds:
            if queue.is_readable(now):
                self._rounds.remove(queue)
                self._rounds.append(queue)
                return _round(queue.waiting, now)
        return {}

    def read(self, key: int, kind: int, record: Any) -> None:
        """Adds a message that was read again."""
        self._queues[kind].due.append((key, record))

    def take(self, calls: int, limit: int, *, has_new: bool) -> list[Due]:
        """Takes messages to be emitted now, at most `calls`; `limit` trees may be open.

        Quarantined messages leave half of the calls to new messages, if there are any.
        """
        first, *quarantined = self._queues
        taken = first.take(calls)
        self._most_open = max(1, limit // 4)
        if any(queue.due for queue in quarantined):
            self._turn += 1
            calls -= len(taken)
            if has_new:
                calls = (calls + self._turn % 2) // 2
            for queue in quarantined if self._turn & 2 else reversed(quarantined):
                some = queue.take(min(calls, self._most_open - queue.open_count))
                calls -= len(some)
                taken += some
        return taken

    def emitted(self, kind: int) -> None:
        """Counts a message that was emitted again."""
        self._queues[kind].open_count += 1

    def ended(self, kind: int) -> None:
        """Counts the outcome of a message that was emitted again."""
        self._queues[kind].open_count -= 1

    def is_due(self, now: float) -> bool:
        """Whether messages can be read or emitted now."""
        first, *quarantined = self._queues
        return (
            bool(first.due)
            or any(queue.due and queue.open_count < self._most_open for queue in quarantined)
            or any(queue.is_readable(now) for queue in self._queues)
        )

    def __len__(self) -> int:
        return sum(len(queue.waiting) + len(queue.due) for queue in self._queues)


def _round(waiting: list[tuple[float, int]], now: float) -> dict[int, list[int]]:
    """Takes due messages, the earliest first; of each partition, only those within `REACH` offsets.

    The others keep their due times, so that a later round begins with them.
    """
    wanted: dict[int, list[int]] = {}
    spans: dict[int, tuple[int, int]] = {}
    others = []
    for _ in range(ROUND):
        if not waiting or waiting[0][0] > now + _ROUNDING_SECONDS:
            break
        due, key = heappop(waiting)
        number, offset = divmod(key, MAX_OFFSET)
        low, high = spans.get(number, (offset, offset))
        low, high = min(low, offset), max(high, offset)
        if high - low >= REACH:
            others.append((due, key))
            continue
        spans[number] = low, high
        wanted.setdefault(number, []).append(offset)
    for other in others:
        heappush(waiting, other)
    return {number: sorted(offsets) for number, offsets in wanted.items()}

"""The open trees of a spout task, and how many there may be."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, repeat
from operator import itemgetter
from typing import Any, Final

from tuple_tree.rotating_map import RotatingMap

_BUCKETS: Final = 3
Tree = tuple[Any, float]  # message id and time of the emit


class Pending:
    """The open trees by root; fails trees whose outcomes are lost.

    A tree without an outcome is removed after `lost_after` to 1.5 times `lost_after` seconds, and `on_lost` is called
    with its message id.
    """

    def __init__(self, lost_after: float, now: float, on_lost: Callable[[Any], object]) -> None:
        self._period = lost_after / (_BUCKETS - 1)
        self._rotate_at = now + self._period
        self._on_lost = on_lost
        self._trees: RotatingMap[int, Tree] = RotatingMap(_BUCKETS)
        self.pop = self._trees.remove  # removes a tree, and returns it; None if it is not open
        self.pop_all = self._trees.remove_all  # removes trees; returns the message ids and times of the open ones

    def put(self, root: int, message_id: Any, now: float) -> bool:
        """Adds a tree; returns False, and changes nothing, if a tree with this root is open."""
        return self._trees.add(root, (message_id, now))

    def put_all(self, roots: Sequence[int], message_ids: Iterable[Any], now: float) -> bool:
        """Adds trees; returns False and changes nothing if one of the roots is open."""
        return self._trees.add_all(dict(zip(roots, zip(message_ids, repeat(now)), strict=False)))

    def tick(self, now: float) -> None:
        # At most one bucket a call: a process that was stopped for long reads its notices before the next one is lost.
        if now >= self._rotate_at:
            self._rotate_at = now + self._period
            for message_id, _ in self._trees.rotate().values():
                self._on_lost(message_id)

    @property
    def trees(self) -> list[Tree]:
        """The open trees, in the order in which they began."""
        return list(self._trees.values())

    def begun(self) -> Iterator[float]:
        """When the open trees began, the oldest first."""
        return map(itemgetter(1), self._trees.values())

    def __len__(self) -> int:
        return len(self._trees)


LEAST: Final = 100  # trees that may always be open, so that the rate can grow
_MARKS: Final = 8
_HELD_TIMEOUTS: Final = 1.2


class PendingLimit:
    """The limit of one task: `max_spout_pending`, or less after trees have timed out, until that many complete again.

    A topology with more open trees than it completes within a message timeout does not recover by itself: every tree
    times out before it is processed, and its replay queues behind tuples of failed trees. The time that a tree
    takes is the number of open trees over the rate at which they complete (Little, 1961), so once trees time out the
    limit is the number of trees that have completed in half a timeout.

    Bolts may hold tuples until newer ones arrive, which a limit must not prevent. They restart the clocks of trees that
    they hold, so a tree that is open for longer than a timeout, and the time that its notice takes, is held by a bolt,
    and is not in a queue. If half of the trees that may be open are held, the limit is doubled. So the limit falls only
    while queues are too long; otherwise it grows.

    A tree without progress has failed after `timeout` seconds, a tick of the ledger included; `value` is how many trees
    may be open now.
    """

    __slots__ = ("_acked", "_every", "_mark_at", "_marks", "_timeout", "most", "value")

    def __init__(self, most: int, timeout: float, now: float) -> None:
        self.most = self.value = most
        self._acked = 0
        self._timeout = timeout
        self._every = timeout / _MARKS
        self._mark_at = now
        # How many trees had been acked at the last marks, which reach back one timeout.
        self._marks: deque[int] = deque([0], maxlen=_MARKS)

    def tick(self, now: float, still_open: int, begun: Callable[[], Iterator[float]]) -> bool:
        """Raises the limit if bolts hold half of the trees; returns whether they do and it cannot be raised.

        Args:
            now: monotonic seconds.
            still_open: how many trees are open.
            begun: returns when the open trees began, the oldest first.
        """
        if now < self._mark_at:
            return False
        self._mark_at = now + self._every
        self._marks.append(self._acked)
        if still_open < self.value:
            return False
        middle = next(islice(begun(), (self.value - 1) // 2, None))
        if now - middle < _HELD_TIMEOUTS * self._timeout:
            return False
        self.value = min(self.most, 2 * self.value)
        return still_open >= self.value

    def acked(self, trees: int) -> None:
        self._acked += trees
        if self.value < self.most:
            self.value = max(self.value, min(self.most, self.value + trees, self._sustained))

    def timed_out(self, still_open: int) -> bool:
        """Lowers the limit after a tree has timed out or was lost; returns whether it falls below `most` now.

        If few others are open, these are not the reason, and the limit stays.
        """
        before, sustained = self.value, self._sustained
        if still_open >= sustained:
            self.value = min(before, sustained)
        return before == self.most > self.value

    @property
    def _sustained(self) -> int:
        """How many trees complete in half a timeout."""
        return max(min(LEAST, self.most), (self._acked - self._marks[0]) // 2)

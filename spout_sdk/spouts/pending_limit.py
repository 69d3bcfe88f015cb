"""How many trees a spout's task may have open while trees time out.

A topology with more open trees than it completes within a message timeout does not recover by itself: every tree
times out before it is processed, and its replay lies behind tuples of trees that have failed. The time that a tree
takes is the number of open trees over the rate at which they complete (Little, 1961), so once trees time out there are
no more than have completed in half a timeout.
"""

from collections import deque
from typing import Final

LEAST: Final = 100
"""Trees that may be open whatever times out, or the rate could not be seen to grow."""
_MARKS: Final = 8


class PendingLimit:
    """The limit of one task: `max_spout_pending`, and less from when trees time out until that many complete again.

    Args:
        most: `max_spout_pending`.
        timeout: of a tree without progress, in seconds.
        now: monotonic seconds.

    Attributes:
        value: trees that may be open now.
    """

    __slots__ = ("_acked", "_every", "_mark_at", "_marks", "most", "value")

    def __init__(self, most: int, timeout: float, now: float) -> None:
        self.most = self.value = most
        self._acked = 0
        self._every = timeout / _MARKS
        self._mark_at = now
        self._marks: deque[int] = deque([0], maxlen=_MARKS)
        """How many were acked at the times up to a timeout ago."""

    def tick(self, now: float) -> None:
        """To be called now and then."""
        if now >= self._mark_at:
            self._mark_at = now + self._every
            self._marks.append(self._acked)

    def acked(self, trees: int) -> None:
        """So many trees were acked."""
        self._acked += trees
        if self.value < self.most:
            self.value = max(self.value, min(self.most, self.value + trees, self._sustained))

    def timed_out(self, still_open: int) -> bool:
        """A tree has timed out, or was lost.

        Args:
            still_open: how many trees are open beside it; if they are few, they are not the reason.

        Returns:
            Whether the limit was `most` and is less now.
        """
        before, sustained = self.value, self._sustained
        if still_open >= sustained:
            self.value = min(before, sustained)
        return before == self.most > self.value

    @property
    def _sustained(self) -> int:
        """How many trees complete in half a timeout."""
        return max(min(LEAST, self.most), (self._acked - self._marks[0]) // 2)

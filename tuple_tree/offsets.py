"""Which offsets of a source partition are still open, and how far it may be committed.

Outcomes come in any order, but everything before a committed offset is done. Offsets need not be contiguous: compaction
and transaction markers leave gaps.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

_COMPACT: Final = 4096  # entries that were passed, before they are deleted


class OffsetManager:
    """The open offsets of one partition.

    `start` and `done` cost amortised O(1). Memory is one entry for each offset behind the first open one, and for those
    that were passed at most as many more, or some thousand.

    Attributes:
        committable: the offset to commit: one after the last before which all are done; None before the first start,
            and that of the first start as long as it is open. As in Storm, a gap in the log is only passed by what lies
            behind it and is done: a reader from before the gap and one from behind it read the same.
        last_started: the last offset that was started; -1 if none was.
    """

    __slots__ = ("_ahead", "_first", "_open", "committable", "last_started")

    def __init__(self) -> None:
        # A list and where it begins, not a deque: a run of offsets is compared, and passed, in one go.
        self._open: list[int] = []
        self._first = 0
        self._ahead: set[int] = set()
        self.committable: int | None = None
        self.last_started = -1

    def start(self, offset: int) -> None:
        """Opens an offset; they must come in rising order.

        Raises `ValueError` if the offset is not above all that were started.
        """
        if offset <= self.last_started:
            raise ValueError(f"offset {offset} was started after offset {self.last_started}: offsets must rise")
        self.last_started = offset
        self._open.append(offset)
        if self.committable is None:
            self.committable = offset

    def done(self, offset: int) -> None:
        """Closes an offset that was started; it is counted as committable once all before it are closed."""
        open_, first = self._open, self._first
        if first == len(open_) or offset < open_[first]:
            return
        if offset != open_[first]:
            self._ahead.add(offset)
            return
        first += 1
        ahead = self._ahead
        while ahead and first < len(open_) and open_[first] in ahead:
            ahead.remove(open_[first])
            first += 1
        self._pass(first)

    def all_done(self, offsets: Sequence[int]) -> None:
        """Closes offsets that were started; in one go if they are the first open ones, in their order."""
        first = self._first
        behind = first + len(offsets)
        if not self._ahead and offsets and self._open[first:behind] == offsets:
            self._pass(behind)
            return
        for offset in offsets:
            self.done(offset)

    def _pass(self, first: int) -> None:
        self.committable = self._open[first - 1] + 1
        if first >= _COMPACT and 2 * first >= len(self._open):
            del self._open[:first]
            first = 0
        self._first = first

    @property
    def oldest_open(self) -> int | None:
        return self._open[self._first] if self._first < len(self._open) else None

    def open_to(self, offset: int) -> list[int]:
        open_ = self._open
        behind = bisect_right(open_, offset, self._first)
        return [each for each in open_[self._first : behind] if each not in self._ahead]

    @property
    def done_ahead(self) -> int:
        """How many offsets are done although one before them is open."""
        return len(self._ahead)

    @property
    def open_count(self) -> int:
        return len(self._open) - self._first - len(self._ahead)

    @property
    def uncommitted_count(self) -> int:
        """How many offsets were started and lie behind `committable`, whether they are done or not."""
        return len(self._open) - self._first

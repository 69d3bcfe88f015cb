"""Which offsets of a partition are still open, what lies after them and is done, and how far it may be committed.

Outcomes come in any order, but everything before a committed offset is done. Offsets need not be contiguous: compaction
and transaction markers leave gaps.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Final

_COMPACT: Final = 4096  # intervals that were passed, before they are deleted

Runs = Sequence[tuple[int, int]]
"""Numbers as runs, each from its begin to before its end, in rising order; runs do not touch."""


class OffsetManager:
    """The open offsets of one partition, as intervals.

    An owner of a partition continues from what another has committed: an offset, and runs past it that are done.
    What lies between these is open until it is read again.

    `start` costs amortised O(1); `done` a binary search, and the movement of what lies after in an array of pointers.
    Memory grows with the number of intervals, not of offsets: one for each run of open offsets between two that are
    done, or between two gaps of the log.

    Other threads may ask for `committable`, `oldest_open` and numbers, which are a little old then.

    Args:
        offset: the committed one; None for none.
        runs: past it, of offsets that are done.
        started_to: after the last offset that another owner has started; it is open if it is in no run.

    Attributes:
        open_count: how many offsets are open.
        read_to: after the last offset that was started; None before the first.
    """

    __slots__ = ("_begins", "_ends", "_first", "_known_to", "open_count", "read_to")

    def __init__(self, offset: int | None = None, runs: Runs = (), started_to: int = 0) -> None:
        # Begins and ends of open intervals, from `_first` on: two lists of numbers are searched without objects.
        self._begins: list[int] = []
        self._ends: list[int] = []
        self._first = 0
        self.open_count = 0
        self.read_to: int | None = None
        self._known_to = offset  # after the last offset that any owner has started
        for begin, end in runs:
            if offset is None or end <= offset:
                continue
            if begin > (known_to := self._known_to or offset):
                self._open(known_to, begin)
            self._known_to = end
        if self._known_to is not None and self._known_to < started_to:
            self._open(self._known_to, started_to)
            self._known_to = started_to

    def start(self, offset: int) -> bool:
        """Opens an offset; they must come in rising order. Returns False if it is done already.

        Raises `ValueError` if the offset is not above all that were started.
        """
        read_to, known_to = self.read_to, self._known_to
        if read_to is not None and offset < read_to:
            raise ValueError(f"offset {offset} was started after offset {read_to - 1}: offsets must rise")
        self.read_to = offset + 1
        if known_to is None or offset >= known_to:
            if known_to is not None and known_to != read_to:
                self._close(read_to or 0, known_to)  # what was open, and is no longer in the log
            self._known_to = offset + 1
            if self._ends and self._ends[-1] == offset and self._first < len(self._ends):
                self._ends[-1] = offset + 1
                self.open_count += 1
            else:
                self._open(offset, offset + 1)
            return True
        self._close(read_to or 0, offset)
        return self._is_open(offset)

    def start_run(self, begin: int, end: int) -> bool:
        """Opens the offsets from `begin` to `end - 1`; returns False and changes nothing if one of them may be done."""
        read_to, known_to = self.read_to, self._known_to
        if read_to is None or known_to != read_to or begin < known_to:
            return False
        if self._ends and self._ends[-1] == begin and self._first < len(self._ends):
            self._ends[-1] = end
            self.open_count += end - begin
        else:
            self._open(begin, end)
        self.read_to = self._known_to = end
        return True

    def skip_to(self, offset: int) -> None:
        """Nothing is between the last offset that was started and this one: markers of transactions, for instance."""
        read_to, known_to = self.read_to, self._known_to
        if known_to is None or offset <= (read_to or 0):
            return
        self._close(read_to or 0, offset)
        self.read_to, self._known_to = offset, max(known_to, offset)

    def done(self, offset: int) -> None:
        """Closes an offset; nothing happens if it is not open."""
        first = self._first
        if first < len(self._begins) and self._begins[first] == offset < self._ends[first] - 1:
            self._begins[first] = offset + 1
            self.open_count -= 1
        else:
            self._close(offset, offset + 1)

    def all_done(self, offsets: Iterable[int]) -> None:
        """Closes offsets, in any order; runs of them in one go."""
        rising = sorted(set(offsets))
        begin = 0
        while begin < len(rising):
            end = _end_of_run(rising, begin)
            self._close(rising[begin], rising[end - 1] + 1)
            begin = end

    @property
    def committable(self) -> int | None:
        """The offset to commit: the first open one, or the next one after all that were started; None before these."""
        first = self._begins[self._first : self._first + 1]
        return first[0] if first else self._known_to

    @property
    def runs(self) -> Runs:
        """Runs of offsets past `committable` that are done, or that the log does not have."""
        begins, ends, first = self._begins, self._ends, self._first
        runs = list(zip(ends[first:-1], begins[first + 1 :], strict=True))
        if self._known_to is not None and first < len(ends) and ends[-1] < self._known_to:
            runs.append((ends[-1], self._known_to))
        return [(begin, end) for begin, end in runs if begin < end]

    @property
    def oldest_open(self) -> int | None:
        """The first open offset that was started."""
        first, read_to = self._begins[self._first : self._first + 1], self.read_to
        return first[0] if first and read_to is not None and first[0] < read_to else None

    @property
    def last_started(self) -> int:
        """The last offset that was started; -1 if none was."""
        return -1 if self.read_to is None else self.read_to - 1

    def open_to(self, offset: int) -> list[int]:
        """The open offsets up to one, which was started."""
        begins, ends, first = self._begins, self._ends, self._first
        behind = bisect_right(begins, offset, first)
        return [
            each
            for begin, end in zip(begins[first:behind], ends[first:behind], strict=True)
            for each in range(begin, min(end, offset + 1))
        ]

    @property
    def uncommitted_count(self) -> int:
        """How many offsets lie after `committable`, up to the last that is known, whether they are open or done."""
        committable = self.committable
        return 0 if committable is None or self._known_to is None else self._known_to - committable

    @property
    def started_behind(self) -> int:
        """How many offsets lie between `committable` and the last that was started, that one included."""
        committable = self.committable
        return 0 if committable is None or self.read_to is None else max(0, self.read_to - committable)

    @property
    def done_ahead(self) -> int:
        """How many offsets past `committable` are done, or are not in the log."""
        return self.uncommitted_count - self.open_count

    def _is_open(self, offset: int) -> bool:
        """Whether an offset is open, or was when another owner committed, and is not read again yet."""
        at = bisect_right(self._ends, offset, self._first)
        return at < len(self._begins) and self._begins[at] <= offset

    def _open(self, begin: int, end: int) -> None:
        self._begins.append(begin)
        self._ends.append(end)
        self.open_count += end - begin

    def _close(self, begin: int, end: int) -> None:
        """Closes what is open in an interval."""
        begins, ends = self._begins, self._ends
        low = bisect_right(ends, begin, self._first)
        high = bisect_left(begins, end, low)
        if low == high or begin >= end:
            return
        before, behind = begins[low], ends[high - 1]
        self.open_count -= sum(ends[at] - begins[at] for at in range(low, high))
        rest = [piece for piece in ((before, begin), (end, behind)) if piece[0] < piece[1]]
        self.open_count += sum(piece[1] - piece[0] for piece in rest)
        if low == self._first and not rest:
            self._first = high
            if high == len(begins) or (high >= _COMPACT and 2 * high >= len(begins)):
                del begins[:high], ends[:high]
                self._first = 0
            return
        begins[low:high] = [piece[0] for piece in rest]
        ends[low:high] = [piece[1] for piece in rest]


def _end_of_run(rising: Sequence[int], begin: int) -> int:
    """Behind the last number of a run of consecutive ones in a list of rising, distinct numbers."""
    first = rising[begin]
    if rising[-1] - first == len(rising) - 1 - begin:
        return len(rising)
    end = begin + 1
    while end < len(rising) and rising[end] - first == end - begin:
        end += 1
    return end

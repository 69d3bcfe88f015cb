"""When a window closes, and what is in it: Storm's trigger and eviction policies, without a clock and without I/O.

Times are integer nanoseconds, so that the end of a window is exactly the start of the next. A window is half open: a
tuple that came at its end belongs to the next.

A tuple leaves as soon as it cannot be in the earliest window that may still close. Hence every tuple that is held is in
the next window, if that closes as early as it can. Storm removes tuples only when the next
window closes, which holds those of a tumbling window twice as long.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from spout_sdk.api.tuples import Tuple
from spout_sdk.windows.specs import WindowSpec


@dataclass(slots=True, eq=False, repr=False)
class Window:
    """The tuples of one window, the oldest first.

    Attributes:
        tuples: all that are in it; none of them is acked yet.
        new: tuples that were not in the window before.
        expired: tuples that left since the window before, the oldest first; they are acked already. For running totals:
            add `new`, take `expired` away. One that was in no window, which only a length and an interval of different
            kinds allow, is not among them.
        start: when it began, in seconds of the task's clock (`TaskContext.now`), or since the epoch where tuples have
            timestamps: of a window whose length is a time, its lower bound, which belongs to it; of one by count, when
            its first tuple came.
        end: when it closed, in the same seconds; of a window that closes by the clock, its upper bound, which belongs
            to the next.
    """

    tuples: Sequence[Tuple]
    new: Sequence[Tuple]
    expired: Sequence[Tuple]
    start: float
    end: float

    def __repr__(self) -> str:
        return (
            f"<Window of {len(self.tuples)} tuples, {len(self.new)} new, {len(self.expired)} expired, "
            f"{self.start:.3f} to {self.end:.3f} s>"
        )


SECOND: Final = 1_000_000_000  # in nanoseconds
Key = tuple[int, int, int]  # orders tuples: when one came, and its place in the inbox, offset and index


def key_of(tuple_: Tuple, at: int) -> Key:
    return at, tuple_.offset, tuple_.index


class WindowManager:
    """The tuples of a task that are in a window or wait for one.

    For each tuple that comes: `due` until it returns None, `add`, then `due` again; and `left` after each. On a tick
    the same without `add`. Each call takes constant time, but for a window that closes, and a tuple whose time lies
    before that of others.

    Attributes:
        tuples: the tuples that it holds.
        unseen: how many tuples left without having been in any window.
        gone: the last tuple that left; whatever lies before it is in no further window.
        trigger: where a later instance continues: how many tuples must come before the next window closes, or when
            the next window ends.
    """

    def __init__(self, spec: WindowSpec, now: int) -> None:
        self._count = spec.count
        self._length = _nanoseconds(spec.seconds)
        self._every_count = spec.every_count
        self._every = _nanoseconds(spec.every_seconds)
        self._flush_after = None if spec.flush_after is None else _nanoseconds(spec.flush_after)
        self.tuples: deque[Tuple] = deque()
        self._times: deque[int] = deque()
        # Number of newest tuples that were in no window yet; and older ones that came out of order.
        self._fresh = 0
        self._inserted: set[Tuple] = set()
        self._expired: list[Tuple] = []
        self.unseen = 0
        self.gone: Key | None = None
        self.trigger = self._first_trigger(now)

    def add(self, tuple_: Tuple, at: int, *, again: bool = False) -> None:
        """Adds a tuple when nothing is due that ended before it; one that came before is not counted `again`."""
        times = self._times
        if times and at < times[-1]:
            self._insert(tuple_, at)
        else:
            self.tuples.append(tuple_)
            times.append(at)
            self._fresh += 1
        if self._every_count is not None and not again:
            self.trigger -= 1

    def _insert(self, tuple_: Tuple, at: int) -> None:
        place = bisect_right(self._times, at)
        if place >= len(self._times) - self._fresh:
            self._fresh += 1
        else:
            self._inserted.add(tuple_)
        self.tuples.insert(place, tuple_)
        self._times.insert(place, at)

    def is_over(self, key: Key, now: int) -> bool:
        """Whether a tuple is in no further window."""
        if self.gone is not None and key <= self.gone:
            return True
        return self._count is None and key[0] < self._earliest_end(now) - self._length

    def due(self, now: int) -> Window | None:
        """Closes the next window that is due, unless it is empty; None if there is none."""
        times = self._times
        if not self._is_due(now):
            return None
        if not times:
            self.trigger = self._first_trigger(now)
            return None
        end = self._earliest_end(now)
        start = end - self._length if self._count is None else times[0]
        tuples = list(self.tuples)
        new = tuples if self._fresh == len(tuples) else tuples[len(tuples) - self._fresh :]
        if self._inserted:
            new = [each for each in tuples[: len(tuples) - self._fresh] if each in self._inserted] + new
            self._inserted.clear()
        window = Window(tuples, new, self._expired, start / SECOND, end / SECOND)
        self._fresh = 0
        self._expired = []
        # The window after it may be due as well, by the clock.
        self.trigger = self.trigger + self._every if self._every_count is None else self._every_count
        return window

    def left(self, now: int) -> Sequence[Tuple]:
        """Removes and returns the tuples that can be in no further window, the oldest first."""
        keep, bound = 0, inf
        if self._count is None:
            bound = self._earliest_end(now) - self._length
        else:
            # The tuples that came, or must come, before the next window closes fill it without the oldest.
            keep = max(0, self._count - (0 if self._every_count is None else self.trigger))
        times, at = self._times, 0
        gone: list[Tuple] = []
        while len(times) > keep and times[0] < bound:
            at = times.popleft()
            tuple_ = self.tuples.popleft()
            gone.append(tuple_)
            if self._fresh > len(times):
                self._fresh -= 1
                self.unseen += 1
            elif tuple_ in self._inserted:
                self._inserted.remove(tuple_)
                self.unseen += 1
            else:
                self._expired.append(tuple_)
        if gone:
            self.gone = key_of(gone[-1], at)
        return gone

    def clear(self) -> Sequence[Tuple]:
        """Removes and returns everything, as if nothing had come before."""
        gone = list(self.tuples)
        if gone:
            self.gone = key_of(gone[-1], self._times[-1])
        self.tuples.clear()
        self._times.clear()
        self._fresh = 0
        self._inserted.clear()
        self._expired = []
        return gone

    def _first_trigger(self, now: int) -> int:
        return (now // self._every + 1) * self._every if self._every_count is None else self._every_count

    def _is_due(self, now: int) -> bool:
        if self._every_count is None:
            return now >= self.trigger
        if self.trigger <= 0:
            return True
        return self._flush_after is not None and bool(self._times) and now - self._times[0] >= self._flush_after

    def _earliest_end(self, now: int) -> int:
        """The earliest end of the next window: after `now` for windows by count, which include the current tuple."""
        return self.trigger if self._every_count is None else now + 1


def _nanoseconds(seconds: float | None) -> int:
    return round((seconds or 0) * SECOND)

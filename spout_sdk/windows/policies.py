"""Decides when a window closes and which tuples are in it, as Storm's trigger and eviction policies; no clock, no I/O.

Times are integer nanoseconds, so that the end of a window is exactly the start of the next. A window is half open: a
tuple that came at its end belongs to the next.

A tuple leaves as soon as it cannot be in the earliest window that may still close. So every held tuple is in the next
window, if that closes as early as it can. Storm removes tuples only when the next window closes, which holds the tuples
of a tumbling window twice as long.
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
        tuples: all tuples in the window; none is acked yet.
        new: tuples that were not in the previous window.
        expired: tuples that left since the previous window, the oldest first; they are already acked. For running
            totals: add `new`, and subtract `expired`. Tuples that were in no window are not included; they occur only
            if length and interval are of different kinds.
        start: when it began, in seconds of the task's clock (`TaskContext.now`), or since the epoch if tuples have
            timestamps: for a window whose length is a time, its lower bound, which is inclusive; for a window by count,
            when its first tuple came.
        end: when it closed, in the same seconds; for a window that closes by the clock, its upper bound, which is
            exclusive.
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
Key = tuple[int, int, int]  # the order of tuples: time in nanoseconds, offset and index in the inbox


def key_of(tuple_: Tuple, at: int) -> Key:
    return at, tuple_.offset, tuple_.index


class WindowManager:
    """The tuples of a task that are in a window or wait for one.

    For each tuple call `due` until it returns None, `add`, then `due` again; and `left` after each. On a tick do the
    same without `add`. Each call takes constant time, except when a window closes, and for a tuple with a time before
    that of others.

    Attributes:
        tuples: the held tuples.
        unseen: how many tuples left without having been in any window.
        gone: the key of the last tuple that left; all tuples before it are in no further window.
        trigger: how many tuples must come before the next window closes, or when the next window ends; from this a
            later instance continues.
    """

    def __init__(self, spec: WindowSpec, now: int) -> None:
        self._count = spec.count
        self._length = _nanoseconds(spec.seconds)
        self._every_count = spec.every_count
        self._every = _nanoseconds(spec.every_seconds)
        self._flush_after = None if spec.flush_after is None else _nanoseconds(spec.flush_after)
        self.tuples: deque[Tuple] = deque()
        self._times: deque[int] = deque()
        # The number of newest tuples that were in no window yet; and older tuples that came out of order.
        self._fresh = 0
        self._inserted: set[Tuple] = set()
        self._expired: list[Tuple] = []
        self.unseen = 0
        self.gone: Key | None = None
        self.trigger = self._first_trigger(now)

    def add(self, tuple_: Tuple, at: int, *, again: bool = False) -> None:
        """Adds a tuple after all windows that ended before it are closed; does not count it if it is held `again`."""
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
        """Removes and returns all tuples, as if none had come before."""
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

"""When a window closes, and what is in it: Storm's trigger and eviction policies, without a clock and without I/O.

Times are integer nanoseconds, so that the end of a window is exactly the start of the next. A window is half open: a
tuple that came at its end belongs to the next.

A tuple leaves as soon as it cannot be in the earliest window that may still close. Hence every tuple that is held is in
the next window, if that closes as early as it can. Storm looks for tuples to let go only when the next window closes,
which holds those of a tumbling window twice as long.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from spout_sdk.api.tuples import Tuple
from spout_sdk.windows.specs import WindowSpec


@dataclass(slots=True, eq=False, repr=False)
class Window:
    """The tuples of one window, the oldest first.

    Attributes:
        tuples: all that are in it; none of them is acked yet.
        new: those that were not in the window before.
        expired: those that left since the window before, the oldest first; they are acked already. For running totals:
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


SECOND: Final = 1_000_000_000
"""In nanoseconds."""

_NONE: Final[tuple[Tuple, ...]] = ()


class CountTrigger:
    """A window closes after so many tuples, or when one has waited for longer than `flush_after`.

    Attributes:
        state: what a later instance goes on from: tuples to come, or of a `TimeTrigger`, when the next window ends.
    """

    def __init__(self, every: int, flush_after: int | None = None) -> None:
        self._every = every
        self._flush_after = flush_after
        self.state = every

    @property
    def to_come(self) -> int:
        """How many tuples must come before the next window closes."""
        return self.state

    def count(self) -> None:
        self.state -= 1

    def is_due(self, now: int, oldest: int | None) -> bool:
        """Whether a window closes now; `oldest` is when the first tuple came that is held."""
        if self.state <= 0:
            return True
        return self._flush_after is not None and oldest is not None and now - oldest >= self._flush_after

    def earliest(self, now: int) -> int:
        """The earliest end of the next window: just behind now, as a tuple that comes now is in it."""
        return now + 1

    def closed(self) -> None:
        self.state = self._every

    def skip(self, _now: int) -> None:
        """Skips windows that are due and hold nothing."""
        self.state = self._every


class TimeTrigger:
    """A window closes at every multiple of an interval; as `CountTrigger`."""

    to_come = 0

    def __init__(self, every: int, now: int) -> None:
        self._every = every
        self.skip(now)

    def count(self) -> None: ...

    def is_due(self, now: int, _oldest: int | None) -> bool:
        return now >= self.state

    def earliest(self, _now: int) -> int:
        return self.state

    def closed(self) -> None:
        self.state += self._every  # which may be due as well

    def skip(self, now: int) -> None:
        self.state = (now // self._every + 1) * self._every


Trigger = CountTrigger | TimeTrigger


class CountEviction:
    """A window holds the newest so many tuples."""

    def __init__(self, count: int) -> None:
        self._count = count

    def leaves(self, times: Sequence[int], trigger: Trigger, _now: int) -> bool:
        """Whether the oldest of the tuples that came at these times is in no further window.

        It is not, if those that came, or must come, before the next window fill it without the oldest.
        """
        return len(times) > max(0, self._count - trigger.to_come)

    def is_over(self, _at: int, _trigger: Trigger, _now: int) -> bool:
        """Whether all windows that may hold a tuple of this time have closed; by count, time decides nothing."""
        return False

    def start(self, times: Sequence[int], _end: int) -> int:
        """Where the window that ends here began: when its first tuple came."""
        return times[0]


class TimeEviction:
    """A window holds the tuples of so long a time; as `CountEviction`."""

    def __init__(self, length: int) -> None:
        self._length = length

    def leaves(self, times: Sequence[int], trigger: Trigger, now: int) -> bool:
        return len(times) > 0 and self.is_over(times[0], trigger, now)

    def is_over(self, at: int, trigger: Trigger, now: int) -> bool:
        return at < trigger.earliest(now) - self._length

    def start(self, _times: Sequence[int], end: int) -> int:
        return end - self._length


Key = tuple[int, int, int]
"""Orders tuples: when one came, and its place in the inbox, offset and index."""


def key_of(tuple_: Tuple, at: int) -> Key:
    return at, tuple_.offset, tuple_.index


class WindowManager:
    """The tuples of a task that are in a window or wait for one.

    For each tuple that comes: `due` until it returns None, `add`, then `due` again; and `left` after each. On a tick
    the same without `add`. Each call takes constant time, but for a window that closes, and a tuple whose time lies
    before that of others.

    Attributes:
        tuples: those that it has.
        unseen: how many tuples left without having been in any window.
        gone: the last tuple that left; whatever lies before it is in no further window.
    """

    def __init__(self, trigger: Trigger, eviction: CountEviction | TimeEviction) -> None:
        self.trigger = trigger
        self._eviction = eviction
        self.tuples: deque[Tuple] = deque()
        self._times: deque[int] = deque()
        # The newest so many were in no window yet, and of those before them the ones that came out of order.
        self._fresh = 0
        self._inserted: set[Tuple] = set()
        self._expired: list[Tuple] = []
        self.unseen = 0
        self.gone: Key | None = None

    @classmethod
    def of(cls, spec: WindowSpec, now: int) -> "WindowManager":
        trigger: Trigger
        if spec.every_count is not None:
            flush_after = None if spec.flush_after is None else round(spec.flush_after * SECOND)
            trigger = CountTrigger(spec.every_count, flush_after)
        else:
            trigger = TimeTrigger(round((spec.every_seconds or 0) * SECOND), now)
        if spec.count is not None:
            return cls(trigger, CountEviction(spec.count))
        return cls(trigger, TimeEviction(round((spec.seconds or 0) * SECOND)))

    def add(self, tuple_: Tuple, at: int, *, again: bool = False) -> None:
        """Adds a tuple when nothing is due that ended before it; one that came before is not counted `again`."""
        times = self._times
        if times and at < times[-1]:
            self._insert(tuple_, at)
        else:
            self.tuples.append(tuple_)
            times.append(at)
            self._fresh += 1
        if not again:
            self.trigger.count()

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
        return self._eviction.is_over(key[0], self.trigger, now)

    def due(self, now: int) -> Window | None:
        """Closes the next window that is due, unless it is empty; None if there is none."""
        times = self._times
        trigger = self.trigger
        if not trigger.is_due(now, times[0] if times else None):
            return None
        if not times:
            trigger.skip(now)
            return None
        end = trigger.earliest(now)
        start = self._eviction.start(times, end)
        tuples = list(self.tuples)
        new = tuples if self._fresh == len(tuples) else tuples[len(tuples) - self._fresh :]
        if self._inserted:
            new = [each for each in tuples[: len(tuples) - self._fresh] if each in self._inserted] + new
            self._inserted.clear()
        window = Window(tuples, new, self._expired, start / SECOND, end / SECOND)
        self._fresh = 0
        self._expired = []
        trigger.closed()
        return window

    def left(self, now: int) -> Sequence[Tuple]:
        """Removes and returns the tuples that can be in no further window, the oldest first."""
        times = self._times
        leaves = self._eviction.leaves
        if not leaves(times, self.trigger, now):
            return _NONE
        gone = []
        at = 0
        while leaves(times, self.trigger, now):
            at = times.popleft()
            gone.append(self.tuples.popleft())
        self.gone = key_of(gone[-1], at)
        # The newest are the fresh ones, so what is short of them at the other end was in no window.
        unseen = max(0, self._fresh - len(times))
        self._fresh -= unseen
        seen = gone[: len(gone) - unseen]
        if self._inserted:
            unseen += sum(each in self._inserted for each in seen)
            seen = [each for each in seen if each not in self._inserted]
            self._inserted.difference_update(gone)
        self.unseen += unseen
        self._expired += seen
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

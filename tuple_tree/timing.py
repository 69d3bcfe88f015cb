"""Time in the loops of a process: what is done every so often, and work without progress."""

from collections.abc import Callable, Hashable
from typing import Final


class Interval:
    """Whether the interval has passed since the last time, by a monotonic clock."""

    __slots__ = ("_clock", "_next", "_seconds")

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        self._next = clock() + seconds

    def due(self) -> bool:
        """True once for each interval that has passed, and for a longer one only once."""
        now = self._clock()
        if now < self._next:
            return False
        self._next = now + self._seconds
        return True


BROKERS: Final = "no broker has answered"  # why a process is stalled whose requests about its topics have no answer


EXECUTING: Final = "execute has not returned"  # how the reason begins where one call takes long


class Stall:
    """Measures time without progress although there is work, beyond a usual duration (`patience`)."""

    def __init__(self, patience_s: float = 0.0) -> None:
        self._patience_s = patience_s
        self._done: Hashable = None
        self._since: float | None = None

    def seconds(self, now: float, done: Hashable, *, has_work: bool = True) -> float:
        """Seconds since `done` changed last, without the patience; 0 where there is no work."""
        if self._since is None or not has_work or done != self._done:
            self._since, self._done = now, done
        return max(0.0, now - self._since - self._patience_s)

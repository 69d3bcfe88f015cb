"""Things that are done every so often within a loop."""

from collections.abc import Callable


class Interval:
    """Whether it is time again, after so many seconds of a rising clock."""

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

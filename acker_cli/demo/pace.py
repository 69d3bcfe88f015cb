"""A spout that does not emit as fast as it can, so that a run lasts long enough for what shall happen in it."""

import time
from collections.abc import Callable


class Pace:
    """Lets through what comes, but no more than so much a second.

    Args:
        rate: how much; 0 for everything.
        clock: seconds, rising.
    """

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval = 1 / rate if rate else 0.0
        self._clock = clock
        self._due = clock()

    def allows(self) -> bool:
        """Whether it is time for one more; if so, it counts as done."""
        if not self._interval:
            return True
        now = self._clock()
        if now < self._due:
            return False
        # What was missed is not made up for.
        self._due = now + self._interval
        return True

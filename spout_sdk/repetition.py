"""What happens again and again is told of now and then, with how often it happened."""

from collections.abc import Hashable
from typing import Final

from spout_sdk.records import Clock

TELL_SECONDS: Final = 1.0


class Repetition:
    """Says when something is to be told of: the first time, and a second after it was told of at the earliest.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._again_at: dict[Hashable, float] = {}
        self._untold: dict[Hashable, int] = {}

    def tell(self, what: Hashable) -> int | None:
        """How often it happened since it was told of last, without this time; None if it is not to be told of now."""
        now = self._clock()
        if now < self._again_at.get(what, now):
            self._untold[what] = self._untold.get(what, 0) + 1
            return None
        self._again_at[what] = now + TELL_SECONDS
        return self._untold.pop(what, 0)

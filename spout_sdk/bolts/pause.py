"""The pause of a task whose calls all raise: it executes nothing until it tries one call again."""

from typing import Final

FIRST_SECONDS: Final = 1.0
LONGEST_SECONDS: Final = 30.0
_GROWTH: Final = 2


class Pause:
    """A pause from the first of its calls that raised to the first that does not; also read by other threads.

    Attributes:
        since: when it began, by the clock of the task.
        until: when a call is tried again.
        why: the last exception, as text.
        tries: calls that were tried since it began, and raised.
    """

    __slots__ = ("_seconds", "since", "tries", "until", "why")

    def __init__(self, now: float, why: str) -> None:
        self._seconds = FIRST_SECONDS
        self.since = now
        self.until = now + FIRST_SECONDS
        self.why = why
        self.tries = 0

    def tried(self, now: float, why: str) -> None:
        """Prolongs the pause: a call was tried, and raised."""
        self._seconds = min(_GROWTH * self._seconds, LONGEST_SECONDS)
        self.until = now + self._seconds
        self.why = why
        self.tries += 1

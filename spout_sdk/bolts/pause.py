"""The pause of a task whose calls all raise: it executes nothing until it tries one call again."""

from typing import Final

from spout_sdk.api.tuples import Tuple
from tuple_tree.positions import are_attempts

FIRST_SECONDS: Final = 1.0
LONGEST_SECONDS: Final = 30.0
_GROWTH: Final = 2
_MOST_ROOTS: Final = 8  # of a tuple, which may have thousands


class MessagesInARow:
    """The messages whose tuples have raised since a call last returned.

    A replay of a message of a Kafka topic is recognised by its root, which has the position of the message. Rarely it
    is taken for another message, or the next message for a replay: a pause comes one failure sooner or later then.
    """

    def __init__(self, ack_partitions: int) -> None:
        self._ack_partitions = ack_partitions
        self._roots: list[int] = []
        self._untracked: set[tuple[int, int]] = set()  # offset and index

    def add(self, tuple_: Tuple) -> bool:
        """Adds the messages that a tuple comes from; returns whether it comes from none of those before."""
        if not (roots := tuple_.roots[:_MOST_ROOTS]):
            at = tuple_.offset, tuple_.index
            is_new = at not in self._untracked
            self._untracked.add(at)
            return is_new
        new = [
            root for root in roots if not any(are_attempts(root, each, self._ack_partitions) for each in self._roots)
        ]
        self._roots += new
        return len(new) == len(roots)

    def clear(self) -> None:
        self._roots, self._untracked = [], set()


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

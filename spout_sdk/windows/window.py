"""The window, as a bolt is handed it."""

from collections.abc import Sequence

from spout_sdk.api.tuples import Tuple


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

    __slots__ = ("end", "expired", "new", "start", "tuples")

    def __init__(
        self, tuples: Sequence[Tuple], new: Sequence[Tuple], expired: Sequence[Tuple], start: float, end: float
    ) -> None:
        self.tuples = tuples
        self.new = new
        self.expired = expired
        self.start = start
        self.end = end

    def __repr__(self) -> str:
        return (
            f"<Window of {len(self.tuples)} tuples, {len(self.new)} new, {len(self.expired)} expired, "
            f"{self.start:.3f} to {self.end:.3f} s>"
        )

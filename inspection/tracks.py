"""What one process has said lately, and what it does a second by that."""

from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from tuple_tree.process_stats import StatsRecord

WINDOW_MS: Final = 5_000
"""Over how long rates and latencies are taken."""
SILENT_MS: Final = 10_000
"""Who has said nothing for so long is taken to be gone."""

Said = TypeVar("Said")


class Track(Generic[Said]):
    """The counts of a process, over the window and a little longer.

    Time between two records is taken by the process's own clock, and how long it is silent by the broker's, so no two
    clocks are compared.
    """

    __slots__ = ("_said", "first_uptime_ms", "record")

    def __init__(self, record: StatsRecord, said: Said) -> None:
        self.record = record
        self.first_uptime_ms = record.uptime_ms
        self._said: deque[tuple[int, Said]] = deque([(record.uptime_ms, said)])

    @property
    def last(self) -> Said:
        """What it said last."""
        return self._said[-1][1]

    @property
    def saw_start(self) -> bool:
        """Whether its first record is of its first seconds, so that all that it ever counted was counted here."""
        return self.first_uptime_ms <= WINDOW_MS

    def add(self, record: StatsRecord, said: Said) -> bool:
        """Takes the next record; False if it is not newer than the last."""
        if record.uptime_ms <= self.record.uptime_ms and not record.ended:
            return False
        self.record = record
        self._said.append((record.uptime_ms, said))
        # One that is older than the window is kept, for the window begins there.
        begin = record.uptime_ms - WINDOW_MS
        while len(self._said) > 1 and self._said[1][0] <= begin:
            self._said.popleft()
        return True

    def silent_ms(self, now_ms: int) -> int:
        """How long ago it said something, in milliseconds."""
        return max(0, now_ms - self.record.at_ms)

    def is_alive(self, now_ms: int) -> bool:
        """Whether it has not ended, and was heard not long ago."""
        return not self.record.ended and self.silent_ms(now_ms) < SILENT_MS

    def is_heard(self, now_ms: int) -> bool:
        """Whether it was heard within the window, so that there is something to say of it."""
        return not self.record.ended and self.silent_ms(now_ms) < WINDOW_MS

    def window(self) -> tuple[float, Said | None, Said] | None:
        """The seconds that the window covers, what was counted before it, and what is counted now.

        What was counted before is None where the process is younger than the window: it began with nothing. There is no
        window as long as only one record of an older process is known.
        """
        uptime_ms, now = self._said[-1]
        first_ms, first = self._said[0]
        if uptime_ms < WINDOW_MS:
            return max(uptime_ms, 1) / 1000, None, now
        if uptime_ms <= first_ms:
            return None
        return (uptime_ms - first_ms) / 1000, first, now

    def rate(self, count: Callable[[Said], int]) -> float:
        """What of a count came a second, over the window."""
        window = self.window()
        if window is None:
            return 0.0
        seconds, before, now = window
        return (count(now) - (0 if before is None else count(before))) / seconds

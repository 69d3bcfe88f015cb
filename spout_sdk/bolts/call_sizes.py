"""How many tuples a step executes at once."""

from typing import Final

MOST_TUPLES: Final = 500  # tuples of a call, at most

_SLOW_SECONDS: Final = 1.0  # a slower batch is made smaller, unless each tuple then takes much longer
_FAST_SECONDS: Final = _SLOW_SECONDS / 4
_MOST_SECONDS: Final = 10.0  # a slower batch is never made larger
_GAIN: Final = 0.75  # a doubled batch is worth its time if a tuple takes less than this share of the time before
_MEMORY: Final = 16  # after this number of batches of one size, the other sizes are measured again
_STRIDE_SECONDS: Final = 0.002
_SHORTEST: Final = 1e-9
_GROWTH: Final = 16
_SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 125, 250, MOST_TUPLES)


class BatchSize:
    """How many tuples one call of a `BatchBolt` or an `ArrowBolt` receives.

    Starts with one tuple and grows: the first batch of a slow bolt must not exceed `max.poll.interval.ms`.

    The size is doubled after a fast batch. The time of a slow batch may not depend on its size, as in a bulk insert:
    the size is doubled while the time for each tuple falls considerably. Only full batches are compared.
    """

    def __init__(self) -> None:
        self._at = 0
        self._seconds: dict[int, float] = {}  # for each tuple, by place in _SIZES
        self._in_place = 0

    @property
    def tuples(self) -> int:
        """The largest number of tuples for the next call."""
        return _SIZES[self._at]

    def executed(self, tuples: int, seconds: float) -> None:
        """Records that a batch of `tuples` tuples took `seconds`."""
        if tuples < self.tuples:
            if seconds > _SLOW_SECONDS:
                self._at = max(at for at, size in enumerate(_SIZES) if size <= tuples)
                self._seconds.clear()
            return
        at, self._seconds[self._at] = self._at, seconds / tuples
        if at + 1 < len(_SIZES) and (seconds < _FAST_SECONDS or (seconds < _MOST_SECONDS and self._may_gain(seconds))):
            self._at += 1
        elif at and seconds > _SLOW_SECONDS and not self._gains(at):
            self._at -= 1
        self._in_place = self._in_place + 1 if self._at == at else 0
        if self._in_place >= _MEMORY:
            self._in_place = 0
            self._seconds.clear()

    def _may_gain(self, seconds: float) -> bool:
        """Whether a batch of twice the size is worth its time, or has to be measured."""
        at = self._at
        if at + 1 in self._seconds:
            return self._gains(at + 1)
        return self._gains(at) if at - 1 in self._seconds else at == 0 or seconds <= _SLOW_SECONDS

    def _gains(self, at: int) -> bool:
        """Whether measurements show that a tuple takes much less time than in a batch of half the size."""
        return at - 1 in self._seconds and self._seconds[at] < _GAIN * self._seconds[at - 1]


class Stride:
    """How many tuples are executed between two readings of the clock, each with a call of its own.

    To read the clock for each tuple would cost as much as a small bolt, and a slow bolt must not miss its ticks: the
    number follows the speed of the tuples before, for about two milliseconds.

    Attributes:
        tuples: for the next time.
    """

    def __init__(self, most: int = 250) -> None:
        self._most = most
        self.tuples = 1

    def executed(self, tuples: int, seconds: float) -> None:
        """Records that `tuples` tuples took `seconds`."""
        fitting = int(_STRIDE_SECONDS * tuples / max(seconds, _SHORTEST))
        self.tuples = max(1, min(self._most, fitting, _GROWTH * self.tuples))

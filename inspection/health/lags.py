"""Lags of a topology's groups over time, for processes that follow it."""

from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple

from inspection.health.limits import GROWTH_SECONDS
from inspection.health.observation import LagChange

_KEPT_SECONDS: Final = 2 * GROWTH_SECONDS

Place = tuple[str, int]  # topic, partition


class GroupLag(NamedTuple):
    done: int  # offsets
    lag: int


Lags = Mapping[tuple[str, Place], GroupLag]  # by group, and partition that it reads


class LagReadings:
    """The lags of the last seconds, read again and again."""

    def __init__(self) -> None:
        self._readings: deque[tuple[float, Lags]] = deque()

    def add(self, now: float, lags: Lags) -> None:
        """Takes a reading; `now` are seconds of a clock that only rises."""
        self._readings.append((now, lags))
        while len(self._readings) > 1 and self._readings[1][0] <= now - _KEPT_SECONDS:
            self._readings.popleft()

    def forget(self) -> None:
        """The next reading is the first again: some were missed."""
        self._readings.clear()

    def lag_changes(self) -> tuple[LagChange, ...]:
        """The changes since the oldest reading; empty until the readings cover enough time."""
        if not self._readings:
            return ()
        (began, first), (now, last) = self._readings[0], self._readings[-1]
        return lag_changes_between(now - began, first, last) if now - began >= GROWTH_SECONDS else ()


def lag_changes_between(seconds: float, first: Lags, last: Lags) -> tuple[LagChange, ...]:
    return tuple(
        LagChange(group, *place, seconds, before.lag, after.lag, max(0, after.done - before.done))
        for (group, place), after in last.items()
        if (before := first.get((group, place))) is not None
    )

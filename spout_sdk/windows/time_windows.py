"""Finds the windows that contain a time, in milliseconds, or the number of a tuple of its key. No clock, no I/O."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spout_sdk.windows.specs import WindowSpec, milliseconds

Times = NDArray[np.int64]  # milliseconds since the epoch, shape `(n,)`


class TimeWindow(NamedTuple):
    """A window, half open: a tuple at its end belongs to the next.

    Attributes:
        start: milliseconds since the epoch; of windows by count, the number of the key's first tuple in it, from 0.
        end: the same; for a session, the time of its last tuple plus the gap.
    """

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TimeWindows:
    """Windows that end at multiples of an interval.

    Attributes:
        length: length in milliseconds or tuples; for sessions, the gap.
        every: interval between two ends, in milliseconds or tuples; for sessions, 0.
        grace: milliseconds after its end for which a window takes tuples.
    """

    length: int
    every: int
    grace: int

    @classmethod
    def of(cls, spec: WindowSpec) -> "TimeWindows":
        if spec.count is not None:
            return cls(spec.count, spec.every_count or spec.count, 0)
        length = spec.seconds if spec.gap is None else spec.gap
        return cls(milliseconds(length or 0), milliseconds(spec.every_seconds or 0), milliseconds(spec.grace))

    def starts(self, time: int) -> range:
        """The starts of the windows that contain a time, the earliest first."""
        return range((time // self.every + 1) * self.every - self.length, time + 1, self.every)

    def rows(self, times: Times) -> tuple[NDArray[np.intp], Times]:
        """The windows of many times: row and start of each window; a row occurs once for each of its windows."""
        first = (times // self.every + 1) * self.every - self.length
        counts = np.maximum(0, (times - first) // self.every + 1)
        rows = np.repeat(np.arange(len(times)), counts)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        return rows, first[rows] + within * self.every

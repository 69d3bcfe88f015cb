"""What the spouts of a topology did in the last hour, in points of five seconds each."""

from collections.abc import Callable
from typing import Final, TypedDict

from spout_sdk.stats import Stats
from tuple_tree.latency import LatencyHistogram

POINT_MS: Final = 5_000
POINTS: Final = 720


class Point(TypedDict):
    """Five seconds of a topology.

    Attributes:
        at: their end, in milliseconds since 1970.
        emitted_per_second, acked_per_second, failed_per_second: trees of all spouts.
        complete_p50, complete_p99: complete latency in milliseconds; None if nothing was acked.
    """

    at: int
    emitted_per_second: float
    acked_per_second: float
    failed_per_second: float
    complete_p50: float | None
    complete_p99: float | None


class History(TypedDict):
    """The points of a topology, in order; where none of its spouts said anything there is none."""

    topology: str
    points: list[Point]


class _Sum:
    __slots__ = ("acked", "complete", "emitted", "failed")

    def __init__(self) -> None:
        self.emitted = 0
        self.acked = 0
        self.failed = 0
        self.complete = LatencyHistogram()

    def add(self, before: Stats | None, now: Stats) -> None:
        def rise(count: Callable[[Stats], int]) -> int:
            return count(now) - (0 if before is None else count(before))

        self.emitted += rise(lambda stats: stats.emitted)
        self.acked += rise(lambda stats: stats.acked)
        self.failed += rise(lambda stats: sum(stats.failed.values()))
        latency = now.complete_latency
        self.complete.merge(latency if before is None else latency.since(before.complete_latency))


class Points:
    """Sums up what spouts say as it comes; the last hour is kept."""

    def __init__(self) -> None:
        self._sums: dict[int, _Sum] = {}

    def add(self, at_ms: int, before: Stats | None, now: Stats) -> None:
        """Adds what a spout's process did since it was last heard.

        Args:
            at_ms: when it said so, in milliseconds since 1970.
            before: what it had counted before; None for nothing.
            now: what it has counted.
        """
        number = at_ms // POINT_MS
        found = self._sums.get(number)
        if found is None:
            found = self._sums[number] = _Sum()
            for old in [each for each in self._sums if each < number - POINTS]:
                del self._sums[old]
        found.add(before, now)

    def points(self) -> list[Point]:
        """Those that are over: something was heard after them."""
        over = sorted(self._sums)[:-1]
        return [_point(number, self._sums[number]) for number in over[-POINTS:]]


def _point(number: int, found: _Sum) -> Point:
    seconds = POINT_MS / 1000
    some = found.complete.total > 0
    return {
        "at": (number + 1) * POINT_MS,
        "emitted_per_second": found.emitted / seconds,
        "acked_per_second": found.acked / seconds,
        "failed_per_second": found.failed / seconds,
        "complete_p50": milliseconds(found.complete.quantile(0.5)) if some else None,
        "complete_p99": milliseconds(found.complete.quantile(0.99)) if some else None,
    }


def milliseconds(seconds: float) -> float:
    """Seconds as milliseconds, to the microsecond."""
    return round(seconds * 1000, 3)

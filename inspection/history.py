"""What a topology, or one of its components, did in the last hour, in points of five seconds each."""

from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any, Final, TypedDict, cast

from spout_sdk.statistics.stats import Stats
from tuple_tree.latency import LatencyHistogram

POINT_MS: Final = 5_000
POINTS: Final = 720


class Point(TypedDict):
    at: int  # their end, in milliseconds since 1970
    emitted_per_second: float  # of a topology, of the trees of all spouts
    executed_per_second: float
    acked_per_second: float
    failed_per_second: float
    complete_p50: float | None  # complete latency in milliseconds; None if no tree was acked
    complete_p99: float | None
    execute_p50: float | None  # execute latency in milliseconds; None if nothing was executed
    execute_p99: float | None
    busy: float | None  # share of the time, from 0 to 1, for which the busiest process executed tuples


class History(TypedDict):
    """The points in order; without records there is none. `component` is None for those of the topology."""

    topology: str
    component: str | None
    points: list[Point]


_COUNTS: Final[dict[str, Callable[[Stats], int]]] = {
    "emitted_per_second": lambda stats: stats.emitted,
    "executed_per_second": lambda stats: stats.executed,
    "acked_per_second": lambda stats: stats.acked,
    "failed_per_second": lambda stats: sum(stats.failed.values()),
}


class _Sum:
    """What the processes did within the five seconds of a point."""

    __slots__ = ("busy_ms", "counts", "latencies")

    def __init__(self) -> None:
        self.counts = dict.fromkeys(_COUNTS, 0)
        self.busy_ms: Counter[Hashable] = Counter()
        self.latencies = {"complete": LatencyHistogram(), "execute": LatencyHistogram()}

    def add(self, process: Hashable, before: Stats, now: Stats) -> None:
        for name, count in _COUNTS.items():
            self.counts[name] += count(now) - count(before)
        if now.task_busy_ms:
            self.busy_ms[process] += sum(now.task_busy_ms.values()) - sum(before.task_busy_ms.values())
        for name, total in self.latencies.items():
            total.merge(getattr(now, f"{name}_latency").since(getattr(before, f"{name}_latency")))

    def point(self, number: int) -> Point:
        point: Any = {"at": (number + 1) * POINT_MS}
        point |= {name: count / (POINT_MS / 1000) for name, count in self.counts.items()}
        for name, latency in self.latencies.items():
            for percent in (50, 99):
                known = milliseconds(latency.quantile(percent / 100)) if latency.total else None
                point[f"{name}_p{percent}"] = known
        # Statistics of one second may be published in this point or the next.
        point["busy"] = min(1.0, max(self.busy_ms.values()) / POINT_MS) if self.busy_ms else None
        return cast(Point, point)


class Points:
    """Sums up statistics as they come; the last hour is kept."""

    def __init__(self) -> None:
        self._sums: dict[int, _Sum] = {}
        self._made: dict[int, Point] = {}

    def add(self, at_ms: int, process: Hashable, before: Stats, now: Stats) -> None:
        number = at_ms // POINT_MS
        self._made.pop(number, None)
        found = self._sums.get(number)
        if found is None:
            found = self._sums[number] = _Sum()
            for old in [each for each in self._sums if each < number - POINTS]:
                del self._sums[old]
                self._made.pop(old, None)
        found.add(process, before, now)

    def points(self) -> list[Point]:
        """Those that are over, because there is a record after them."""
        over = sorted(self._sums)[:-1][-POINTS:]
        for number in over:
            if number not in self._made:
                self._made[number] = self._sums[number].point(number)
        return [self._made[number] for number in over]


def milliseconds(seconds: float) -> float:
    """Seconds as milliseconds, to the microsecond."""
    return round(seconds * 1000, 3)

"""What a topology, or one of its components, did in the last hour, in points of five seconds each."""

from collections.abc import Callable, Hashable
from typing import Final, TypedDict

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
    """The points in order; where nothing was said there is none. `component` is None for those of the topology."""

    topology: str
    component: str | None
    points: list[Point]


class _Sum:
    __slots__ = ("acked", "busy_ms", "complete", "emitted", "execute", "executed", "failed")

    def __init__(self) -> None:
        self.emitted = 0
        self.executed = 0
        self.acked = 0
        self.failed = 0
        self.busy_ms: dict[Hashable, int] = {}
        self.complete = LatencyHistogram()
        self.execute = LatencyHistogram()

    def add(self, process: Hashable, before: Stats | None, now: Stats) -> None:
        def rise(count: Callable[[Stats], int]) -> int:
            return count(now) - (0 if before is None else count(before))

        self.emitted += rise(lambda stats: stats.emitted)
        self.executed += rise(lambda stats: stats.executed)
        self.acked += rise(lambda stats: stats.acked)
        self.failed += rise(lambda stats: sum(stats.failed.values()))
        if now.task_busy_ms:
            busy_ms = rise(lambda stats: sum(stats.task_busy_ms.values()))
            self.busy_ms[process] = self.busy_ms.get(process, 0) + busy_ms
        for name, total in (("complete_latency", self.complete), ("execute_latency", self.execute)):
            latency: LatencyHistogram = getattr(now, name)
            total.merge(latency if before is None else latency.since(getattr(before, name)))


class Points:
    """Sums up what processes say as it comes; the last hour is kept."""

    def __init__(self) -> None:
        self._sums: dict[int, _Sum] = {}
        self._made: dict[int, Point] = {}

    def add(self, at_ms: int, process: Hashable, before: Stats | None, now: Stats) -> None:
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
        """Those that are over: something was heard after them."""
        over = sorted(self._sums)[:-1][-POINTS:]
        for number in over:
            if number not in self._made:
                self._made[number] = _point(number, self._sums[number])
        return [self._made[number] for number in over]


def _point(number: int, found: _Sum) -> Point:
    seconds = POINT_MS / 1000
    return {
        "at": (number + 1) * POINT_MS,
        "emitted_per_second": found.emitted / seconds,
        "executed_per_second": found.executed / seconds,
        "acked_per_second": found.acked / seconds,
        "failed_per_second": found.failed / seconds,
        "complete_p50": _quantile(found.complete, 0.5),
        "complete_p99": _quantile(found.complete, 0.99),
        "execute_p50": _quantile(found.execute, 0.5),
        "execute_p99": _quantile(found.execute, 0.99),
        # What a process says each second may fall into one point or the next.
        "busy": min(1.0, max(found.busy_ms.values()) / POINT_MS) if found.busy_ms else None,
    }


def _quantile(latency: LatencyHistogram, q: float) -> float | None:
    return milliseconds(latency.quantile(q)) if latency.total else None


def milliseconds(seconds: float) -> float:
    """Seconds as milliseconds, to the microsecond."""
    return round(seconds * 1000, 3)

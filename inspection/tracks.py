"""Statistics of processes over time: rates over a window, the load of a bolt's tasks, and the last hour."""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import partial
from typing import Any, Final, Generic, Literal, TypedDict, TypeVar, cast

from spout_sdk.statistics.stats import Stats
from tuple_tree.latency import LatencyHistogram
from tuple_tree.process_stats import StatsRecord

WINDOW_MS: Final = 5_000  # of rates and latencies
SILENT_MS: Final = 10_000  # a process without a record for so long counts as gone
_KEPT_MS: Final = 7_200_000  # how long the totals of a process are kept after its last record
_FEW: Final = 50  # with fewer tuples a task in the window, differences between tasks mean nothing
_POINT_MS: Final = 5_000
_POINTS: Final = 720
_PERCENTS: Final[tuple[Literal["p50", "p99"], ...]] = ("p50", "p99")

Counts = TypeVar("Counts")


class Track(Generic[Counts]):
    """The counts of a process, over the window and a little longer.

    Time between two records is taken by the process's own clock, and its silence by the broker's, so no two clocks are
    compared. `nothing` are the counts of a process at its start.
    """

    __slots__ = ("_nothing", "_window", "record")

    def __init__(self, record: StatsRecord, counts: Counts, nothing: Counts) -> None:
        self.record = record
        self._nothing = nothing
        self._window: deque[tuple[int, Counts]] = deque([(record.uptime_ms, counts)])

    @property
    def last(self) -> Counts:
        return self._window[-1][1]

    def add(self, record: StatsRecord, counts: Counts) -> Counts | None:
        """Takes the next record; the counts before it, or None if it is not newer than the last."""
        if record.uptime_ms <= self.record.uptime_ms and not record.ended:
            return None
        self.record, before = record, self.last
        self._window.append((record.uptime_ms, counts))
        # One that is older than the window is kept, for the window begins there.
        begin = record.uptime_ms - WINDOW_MS
        while len(self._window) > 1 and self._window[1][0] <= begin:
            self._window.popleft()
        return before

    def silent_ms(self, now_ms: int) -> int:
        return max(0, now_ms - self.record.at_ms)

    def is_alive(self, now_ms: int, silent_ms: int = SILENT_MS) -> bool:
        return not self.record.ended and self.silent_ms(now_ms) < silent_ms

    def window(self) -> tuple[float, Counts, Counts]:
        """The seconds that the window covers, the counts before it, and the counts now.

        Where only one record of a process that is older than the window is known, both counts are the same.
        """
        uptime_ms, now = self._window[-1]
        first_ms, first = self._window[0]
        if uptime_ms < WINDOW_MS:
            first_ms, first = 0, self._nothing
        return max(uptime_ms - first_ms, 1) / 1000, first, now

    def rate(self, count: Callable[[Counts], int]) -> float:
        seconds, before, now = self.window()
        return (count(now) - count(before)) / seconds


class Tracks(Generic[Counts]):
    """The tracks of all processes of a kind: each by its key, and its run."""

    def __init__(self, nothing: Counts) -> None:
        self._nothing = nothing
        self._tracks: dict[tuple[bytes, str], Track[Counts]] = {}

    def add(self, record: StatsRecord, counts: Counts) -> Counts | None:
        """Takes a record; the counts of the process before it, or None if they are not known or it is not newer."""
        if track := self._tracks.get((record.key, record.run)):
            return track.add(record, counts)
        self._tracks[record.key, record.run] = Track(record, counts, self._nothing)
        # In its first seconds all that it ever counted was counted since then.
        return self._nothing if record.uptime_ms <= WINDOW_MS else None

    def known(self, now_ms: int) -> list[Track[Counts]]:
        """In the order of their latest records; drops the processes that are gone for two hours."""
        self._tracks = {key: track for key, track in self._tracks.items() if track.silent_ms(now_ms) <= _KEPT_MS}
        return sorted(self._tracks.values(), key=lambda track: track.record.at_ms)


class TaskLoad(TypedDict):
    task: int
    process: str | None  # its owner, as `host/pid`; None if there is none
    executed_per_second: float | None  # None if no process reports it
    busy: float | None  # share of the time, from 0 to 1, for which it executed tuples; None if no process reports it
    lag: int | None  # of its partition of the inbox; None where that is not known


def task_loads(
    tasks: int, alive: Iterable[Track[Stats]], recent: Iterable[Track[Stats]], lags: Mapping[int, int | None]
) -> list[TaskLoad]:
    """The load of each of a bolt's tasks, from its processes: those alive, and those recent within the window."""
    # The latest record wins: a process that was killed still seems to own its tasks.
    owners = {task: track.record.process for track in alive for task in track.last.tasks}
    executed: dict[str, float] = defaultdict(float)
    busy: dict[str, float] = defaultdict(float)
    for track in recent:
        for task in track.last.task_executed:
            executed[task] += track.rate(partial(_of_task, "task_executed", task))
            busy[task] += _share(track.rate(partial(_of_task, "task_busy_ms", task)))
    return [
        {
            "task": number,
            "process": owners.get(number),
            "executed_per_second": rounded(executed.get(str(number))),
            "busy": rounded(busy.get(str(number))),
            "lag": lags.get(number),
        }
        for number in range(tasks)
    ]


def busiest(recent: Iterable[Track[Stats]]) -> float | None:
    """The share of the time for which the busiest process executed tuples: its tasks take turns in one thread."""
    rates = [track.rate(lambda stats: sum(stats.task_busy_ms.values())) for track in recent if track.last.task_busy_ms]
    return rounded(_share(max(rates))) if rates else None


def skew(loads: Iterable[TaskLoad], seconds: float) -> float | None:
    """The rate of the busiest task, over the mean; None with one task, or too few tuples in so many seconds."""
    rates = [load["executed_per_second"] or 0.0 for load in loads]
    mean = sum(rates) / len(rates) if rates else 0.0
    return round(max(rates) / mean, 2) if len(rates) > 1 and mean * seconds >= _FEW else None


def _of_task(name: str, task: str, stats: Stats) -> int:
    return int(getattr(stats, name).get(task, 0))


def _share(busy_ms_per_second: float) -> float:
    return min(1.0, busy_ms_per_second / 1000)


def rounded(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 3)


class Latency(TypedDict):
    """In milliseconds."""

    p50: float
    p99: float


def latency_of(latencies: LatencyHistogram) -> Latency | None:
    """To the microsecond; None if there are none."""
    if not latencies.total:
        return None
    p50, p99 = (round(latencies.quantile(share) * 1000, 3) for share in (0.5, 0.99))
    return {"p50": p50, "p99": p99}


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
        point: Any = {"at": (number + 1) * _POINT_MS}
        point |= {name: count / (_POINT_MS / 1000) for name, count in self.counts.items()}
        for name, latency in self.latencies.items():
            quantiles = latency_of(latency)
            for percent in _PERCENTS:
                point[f"{name}_{percent}"] = quantiles and quantiles[percent]
        # Statistics of one second may be published in this point or the next.
        point["busy"] = min(1.0, max(self.busy_ms.values()) / _POINT_MS) if self.busy_ms else None
        return cast(Point, point)


class Points:
    """Sums up statistics as they come, in the order of their times; the last hour is kept."""

    def __init__(self) -> None:
        self._number = -1  # of the current one
        self._sum = _Sum()
        self._over: deque[Point] = deque(maxlen=_POINTS)

    def add(self, at_ms: int, process: Hashable, before: Stats, now: Stats) -> None:
        number = at_ms // _POINT_MS
        if number > self._number:
            if self._number >= 0:
                self._over.append(self._sum.point(self._number))
            self._number, self._sum = number, _Sum()
        self._sum.add(process, before, now)

    def points(self) -> list[Point]:
        """Those that are over, because there is a record after them."""
        return [point for point in self._over if point["at"] > (self._number - _POINTS) * _POINT_MS]

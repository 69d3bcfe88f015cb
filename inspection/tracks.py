"""Statistics of processes over time: rates over a window, the load of a bolt's tasks, and the last hour."""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Final, Generic, TypedDict, TypeVar, cast

from spout_sdk.statistics import Stats
from spout_sdk.windows.late_tuples import LATE
from tuple_tree.latency import LatencyHistogram
from tuple_tree.process_stats import StatsRecord

WINDOW_MS: Final = 5_000  # of rates and latencies
MINUTE_MS: Final = 60_000  # of the counts by which health is judged
STATISTICS_TIMEOUT_MS: Final = 10_000  # a process without a record for this long counts as gone
_KEPT_MS: Final = 7_200_000  # how long the totals of a process are kept after its last record
_FEW: Final = 50  # with fewer tuples a task in the window, differences between tasks mean nothing
_POINT_MS: Final = 5_000
_POINTS: Final = 720
_CLOCKS: Final = 10  # records by which the clocks of a process and the broker are compared
_COUNTS: Final[dict[str, Callable[[Stats], int]]] = {
    "emitted_per_second": lambda stats: stats.emitted,
    "executed_per_second": lambda stats: stats.executed,
    "acked_per_second": lambda stats: stats.acked,
    "failed_per_second": lambda stats: sum(stats.failed.values()),
}

_RECENT: Final = ("executed", "acked", "errors", "retried", "dead_letters", "undelivered")
_FAILED: Final = "failed "  # how the name of a count of failures begins, before its reason

Counts = TypeVar("Counts")
Latency = dict[str, float]  # `p50` and `p99`, in milliseconds, to the microsecond


def _ahead_ms(record: StatsRecord) -> Iterable[int]:
    """The largest difference by which the broker's clock can be ahead of the process's."""
    return [record.at_ms - record.sent_ms] if record.sent_ms else []


class Track(Generic[Counts]):
    """The counts of a process, over the window and a little longer.

    The process's own clock measures the time between two records, and the broker's clock their age: no two clocks are
    compared. `nothing` are the counts of a process at its start.

    Attributes:
        minute: of a component, its counts of the last minute.
        ahead_ms: for each of its last records, by how much the broker's clock was ahead of the process's, at most.
    """

    __slots__ = ("_nothing", "_window", "ahead_ms", "minute", "record")

    def __init__(self, record: StatsRecord, counts: Counts, nothing: Counts) -> None:
        self.record = record
        self.minute = Minute(record.uptime_ms, counts) if isinstance(counts, Stats) else None
        self.ahead_ms: deque[int] = deque(_ahead_ms(record), maxlen=_CLOCKS)
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
        self.ahead_ms.extend(_ahead_ms(record))
        if self.minute is not None and isinstance(counts, Stats):
            self.minute.add(record.uptime_ms, counts)
        self._window.append((record.uptime_ms, counts))
        # One that is older than the window is kept, for the window begins there.
        begin = record.uptime_ms - WINDOW_MS
        while len(self._window) > 1 and self._window[1][0] <= begin:
            self._window.popleft()
        return before

    def age_ms(self, now_ms: int) -> int:
        """Milliseconds since the latest record, by the broker's clock."""
        return max(0, now_ms - self.record.at_ms)

    def is_alive(self, now_ms: int, limit_ms: int = STATISTICS_TIMEOUT_MS) -> bool:
        return not self.record.ended and self.age_ms(now_ms) < limit_ms

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
        self._tracks = {key: track for key, track in self._tracks.items() if track.age_ms(now_ms) <= _KEPT_MS}
        return sorted(self._tracks.values(), key=lambda track: track.record.at_ms)


class Recent(TypedDict):
    """Counts of the last minute, of all processes that have run in it."""

    executed: int
    acked: int
    failed: dict[str, int]  # by reason, without reasons that did not occur
    errors: int
    retried: int  # executions of tuples that a bolt executed before
    dead_letters: int
    undelivered: int
    late_tuples: int


class Minute:
    """The counts of one process before the last minute, and now."""

    __slots__ = ("_samples",)

    def __init__(self, uptime_ms: int, stats: Stats) -> None:
        # All that a young process ever counted was counted in the last minute.
        first: list[tuple[int, Counter[str]]] = [] if uptime_ms > WINDOW_MS else [(0, Counter())]
        self._samples = deque([*first, (uptime_ms, _counted(stats))])

    def add(self, uptime_ms: int, stats: Stats) -> None:
        self._samples.append((uptime_ms, _counted(stats)))
        while len(self._samples) > 1 and self._samples[1][0] <= uptime_ms - MINUTE_MS:
            self._samples.popleft()

    @property
    def counts(self) -> Counter[str]:
        return self._samples[-1][1] - self._samples[0][1]


def _counted(stats: Stats) -> Counter[str]:
    counts = {name: getattr(stats, name) for name in _RECENT} | {"late_tuples": stats.counters.get(LATE, 0)}
    return Counter(counts | {f"{_FAILED}{reason}": count for reason, count in stats.failed.items()})


def recent_counts(minutes: Iterable[Minute]) -> Recent:
    """The sums of the counts of processes in their last minutes."""
    total: Counter[str] = Counter()
    for minute in minutes:
        total.update(minute.counts)
    failed = {name.removeprefix(_FAILED): count for name, count in total.items() if name.startswith(_FAILED)}
    counts = {name: total[name] for name in (*_RECENT, "late_tuples")}
    return cast(Recent, {**counts, "failed": dict(sorted(failed.items()))})


class MostFailedView(TypedDict):
    """A tuple of a bolt, or a message of a `KafkaSpout`."""

    place: str  # its record, as `topic[partition] offset N`
    times: int  # how often it has failed
    error: str  # its last failure
    component: str  # what failed it
    seconds: float  # since its first failure; 0 for a message


class TaskLoad(TypedDict):
    task: int
    process: str | None  # its owner, as `host/pid`
    executed_per_second: float | None
    busy: float | None  # share of the time, from 0 to 1, for which it executed tuples
    lag: int | None  # of its partition of the inbox
    keys: int | None  # of its state


def task_loads(
    tasks: int, alive: Iterable[Track[Stats]], recent: Iterable[Track[Stats]], lags: Mapping[int, int | None]
) -> list[TaskLoad]:
    """The load of each of a bolt's tasks, from its processes: those alive, and those recent within the window."""
    # The latest record wins: a process that was killed still seems to own its tasks.
    owners = {task: track.record.process for track in alive for task in track.last.tasks}
    executed: dict[str, float] = defaultdict(float)
    busy: dict[str, float] = defaultdict(float)
    keys: dict[str, int] = {}
    for track in alive:
        keys |= track.last.state.task_keys if track.last.state is not None else {}
    for track in recent:
        seconds, before, now = track.window()
        for task, count in now.task_executed.items():
            executed[task] += (count - before.task_executed.get(task, 0)) / seconds
            busy_ms = now.task_busy_ms.get(task, 0) - before.task_busy_ms.get(task, 0)
            busy[task] += min(1.0, busy_ms / seconds / 1000)
    return [
        {
            "task": number,
            "process": owners.get(number),
            "executed_per_second": rounded(executed.get(str(number))),
            "busy": rounded(busy.get(str(number))),
            "lag": lags.get(number),
            "keys": keys.get(str(number)),
        }
        for number in range(tasks)
    ]


def busiest(recent: Iterable[Track[Stats]]) -> float | None:
    """The share of the time for which the busiest process executed tuples: its tasks take turns in one thread."""
    rates = [track.rate(lambda stats: sum(stats.task_busy_ms.values())) for track in recent if track.last.task_busy_ms]
    return rounded(min(1.0, max(rates) / 1000)) if rates else None


def skew(loads: Iterable[TaskLoad], seconds: float) -> float | None:
    """The rate of the busiest task, over the mean; None with one task, or too few tuples in `seconds`."""
    rates = [load["executed_per_second"] or 0.0 for load in loads]
    mean = sum(rates) / len(rates) if rates else 0.0
    return round(max(rates) / mean, 2) if len(rates) > 1 and mean * seconds >= _FEW else None


def rounded(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 3)


def latency_between(states: Iterable[tuple[Stats, Stats]], name: str) -> Latency | None:
    """The latency of what processes did between pairs of states; None if they did nothing."""
    together = LatencyHistogram()
    for before, now in states:
        together.merge(getattr(now, name).since(getattr(before, name)))
    if not together.total:
        return None
    return {f"p{percent}": round(together.quantile(percent / 100) * 1000, 3) for percent in (50, 99)}


class Points:
    """The last hour in points of five seconds, from the statistics of processes in the order of their times."""

    def __init__(self) -> None:
        self._number = 0  # of the point that is not over yet
        self._steps: list[tuple[Hashable, Stats, Stats]] = []  # of it: process, before, now
        self._over: deque[dict[str, Any]] = deque(maxlen=_POINTS)

    def add(self, at_ms: int, process: Hashable, before: Stats, now: Stats) -> None:
        number = at_ms // _POINT_MS
        if number > self._number:
            if self._steps:
                self._over.append(self._point())
            self._number, self._steps = number, []
        self._steps.append((process, before, now))

    def points(self) -> list[dict[str, Any]]:
        """The minutes that have ended, because a later record exists; in the form of `docs/reference/json.md`."""
        return [point for point in self._over if point["at"] > (self._number - _POINTS) * _POINT_MS]

    def _point(self) -> dict[str, Any]:
        point: dict[str, Any] = {"at": (self._number + 1) * _POINT_MS}
        for name, count in _COUNTS.items():
            point[name] = sum(count(now) - count(before) for _, before, now in self._steps) / (_POINT_MS / 1000)
        for kind in ("complete", "process"):
            latency = latency_between((step[1:] for step in self._steps), f"{kind}_latency") or {}
            point |= {f"{kind}_{percent}": latency.get(percent) for percent in ("p50", "p99")}
        busy_ms: Counter[Hashable] = Counter()
        for process, before, now in self._steps:
            if now.task_busy_ms:
                busy_ms[process] += sum(now.task_busy_ms.values()) - sum(before.task_busy_ms.values())
        # Statistics of one second may be published in this point or the next.
        point["busy"] = min(1.0, max(busy_ms.values()) / _POINT_MS) if busy_ms else None
        return point

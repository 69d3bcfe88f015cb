"""The recent statistics of each process: rates over a window, and the load of the tasks of a bolt."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final, Generic, TypedDict, TypeVar

from spout_sdk.statistics.stats import Stats
from tuple_tree.process_stats import StatsRecord

WINDOW_MS: Final = 5_000  # of rates and latencies
SILENT_MS: Final = 10_000  # a process without a record for so long counts as gone
_FEW: Final = 50  # with fewer tuples a task in the window, differences between tasks mean nothing

KEPT_MS: Final = 7_200_000  # how long the totals of a process are kept after its last record

Counts = TypeVar("Counts")


class Track(Generic[Counts]):
    """The counts of a process, over the window and a little longer.

    Time between two records is taken by the process's own clock, and its silence by the broker's, so no two clocks are
    compared. `nothing` are the counts of a process at its start.
    """

    __slots__ = ("_nothing", "_window", "record", "saw_start")

    def __init__(self, record: StatsRecord, counts: Counts, nothing: Counts) -> None:
        self.record = record
        self._nothing = nothing
        self._window: deque[tuple[int, Counts]] = deque([(record.uptime_ms, counts)])
        # Whether the first record is of its first seconds, so that all that it ever counted was counted here.
        self.saw_start = record.uptime_ms <= WINDOW_MS

    @property
    def last(self) -> Counts:
        return self._window[-1][1]

    def add(self, record: StatsRecord, counts: Counts) -> bool:
        """Takes the next record; False if it is not newer than the last."""
        if record.uptime_ms <= self.record.uptime_ms and not record.ended:
            return False
        self.record = record
        self._window.append((record.uptime_ms, counts))
        # One that is older than the window is kept, for the window begins there.
        begin = record.uptime_ms - WINDOW_MS
        while len(self._window) > 1 and self._window[1][0] <= begin:
            self._window.popleft()
        return True

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
        track = self._tracks.get((record.key, record.run))
        if track is None:
            track = self._tracks[record.key, record.run] = Track(record, counts, self._nothing)
            return self._nothing if track.saw_start else None
        before = track.last
        return before if track.add(record, counts) else None

    def known(self, now_ms: int) -> list[Track[Counts]]:
        """In the order of their latest records; drops the processes that are gone for `KEPT_MS`."""
        self._tracks = {key: track for key, track in self._tracks.items() if track.silent_ms(now_ms) <= KEPT_MS}
        return sorted(self, key=lambda track: track.record.at_ms)

    def __iter__(self) -> Iterator[Track[Counts]]:
        return iter(self._tracks.values())


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

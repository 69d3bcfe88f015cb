"""The recent statistics of each process: rates over a window, and how busy the tasks of a bolt are."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, Generic, TypedDict, TypeVar

from spout_sdk.statistics.stats import Stats
from tuple_tree.process_stats import StatsRecord

WINDOW_MS: Final = 5_000  # over how long rates and latencies are taken
SILENT_MS: Final = 10_000  # A process without a record for so long counts as gone
_FEW: Final = 50  # with fewer tuples a task in the window, differences between tasks mean nothing

Counts = TypeVar("Counts")


class Track(Generic[Counts]):
    """The counts of a process, over the window and a little longer.

    Time between two records is taken by the process's own clock, and how long it is silent by the broker's, so no two
    clocks are compared.
    """

    __slots__ = ("_window", "first_uptime_ms", "record")

    def __init__(self, record: StatsRecord, counts: Counts) -> None:
        self.record = record
        self.first_uptime_ms = record.uptime_ms
        self._window: deque[tuple[int, Counts]] = deque([(record.uptime_ms, counts)])

    @property
    def last(self) -> Counts:
        return self._window[-1][1]

    @property
    def saw_start(self) -> bool:
        """Whether its first record is of its first seconds, so that all that it ever counted was counted here."""
        return self.first_uptime_ms <= WINDOW_MS

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

    def is_alive(self, now_ms: int) -> bool:
        return not self.record.ended and self.silent_ms(now_ms) < SILENT_MS

    def is_recent(self, now_ms: int) -> bool:
        """Whether it has a record within the window, so that it has rates."""
        return not self.record.ended and self.silent_ms(now_ms) < WINDOW_MS

    def window(self) -> tuple[float, Counts | None, Counts] | None:
        """The seconds that the window covers, the counts before it, and the counts now.

        The counts before are None where the process is younger than the window: it began with nothing. There is no
        window as long as only one record of an older process is known.
        """
        uptime_ms, now = self._window[-1]
        first_ms, first = self._window[0]
        if uptime_ms < WINDOW_MS:
            return max(uptime_ms, 1) / 1000, None, now
        return None if uptime_ms <= first_ms else ((uptime_ms - first_ms) / 1000, first, now)

    def rate(self, count: Callable[[Counts], int]) -> float:
        window = self.window()
        if window is None:
            return 0.0
        seconds, before, now = window
        return (count(now) - (0 if before is None else count(before))) / seconds


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
    owners: dict[int, str] = {}
    # The latest record wins: a process that was killed still seems to own its tasks.
    for track in sorted(alive, key=lambda each: each.record.at_ms):
        owners.update(dict.fromkeys(track.last.tasks, track.record.process))
    executed: dict[str, float] = {}
    busy: dict[str, float] = {}
    for track in recent:
        for task in track.last.task_executed:
            executed[task] = executed.get(task, 0.0) + track.rate(partial(_executed, task))
            busy[task] = busy.get(task, 0.0) + _share(track.rate(partial(_busy_ms, task)))
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


def _executed(task: str, stats: Stats) -> int:
    return stats.task_executed.get(task, 0)


def _busy_ms(task: str, stats: Stats) -> int:
    return stats.task_busy_ms.get(task, 0)


def _share(busy_ms_per_second: float) -> float:
    return min(1.0, busy_ms_per_second / 1000)


def rounded(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 3)

"""How busy the tasks of a bolt are, and how evenly the tuples are spread over them."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final, TypedDict

from inspection.tracks import Track
from spout_sdk.statistics.stats import Stats

_FEW: Final = 50
"""With fewer tuples a task in the window, that one task has more than another says nothing."""


class TaskLoad(TypedDict):
    """A task of a bolt."""

    task: int
    process: str | None  # who works at it, as `host/pid`; None if nobody does
    executed_per_second: float | None  # None if nobody says it
    busy: float | None  # share of the time, from 0 to 1, for which it executed tuples; None if nobody says it
    lag: int | None  # records that wait in its partition of the inbox; None where that is not known


def task_loads(
    tasks: int, alive: Iterable[Track[Stats]], heard: Iterable[Track[Stats]], lags: Mapping[int, int | None]
) -> list[TaskLoad]:
    """The load of each task."""
    owners: dict[int, str] = {}
    # Who was heard last has it, where a process that was killed still seems to.
    for track in sorted(alive, key=lambda each: each.record.at_ms):
        owners.update(dict.fromkeys(track.last.tasks, track.record.process))
    executed: dict[str, float] = {}
    busy: dict[str, float] = {}
    for track in heard:
        for task in track.last.task_executed:
            executed[task] = executed.get(task, 0.0) + track.rate(partial(_executed, task))
            busy[task] = busy.get(task, 0.0) + _share(track.rate(partial(_busy_ms, task)))
    return [
        {
            "task": number,
            "process": owners.get(number),
            "executed_per_second": _rounded(executed.get(str(number))),
            "busy": _rounded(busy.get(str(number))),
            "lag": lags.get(number),
        }
        for number in range(tasks)
    ]


def busiest(heard: Iterable[Track[Stats]]) -> float | None:
    """The share of the time for which the busiest process executed tuples: its tasks take turns in one thread."""
    shares = [
        _share(track.rate(lambda stats: sum(stats.task_busy_ms.values()))) for track in heard if track.last.task_busy_ms
    ]
    return _rounded(max(shares)) if shares else None


def skew(loads: Iterable[TaskLoad], seconds: float) -> float | None:
    """How many times the mean of all tasks the busiest one gets; None with one task, or too few tuples to tell."""
    rates = [load["executed_per_second"] or 0.0 for load in loads]
    mean = sum(rates) / len(rates) if rates else 0.0
    return round(max(rates) / mean, 2) if len(rates) > 1 and mean * seconds >= _FEW else None


def _executed(task: str, stats: Stats) -> int:
    return stats.task_executed.get(task, 0)


def _busy_ms(task: str, stats: Stats) -> int:
    return stats.task_busy_ms.get(task, 0)


def _share(busy_ms_per_second: float) -> float:
    return min(1.0, busy_ms_per_second / 1000)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)

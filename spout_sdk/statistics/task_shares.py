"""The shares of a bolt's tasks in shuffle groupings, from the statistics that its processes publish.

A task's share follows its speed, which is executed tuples divided by busy seconds. The speed does not depend on the
share, so late statistics cannot make the share oscillate. The tuples that wait in an inbox correct the share slowly.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tuple_tree.process_stats import StatsRecord

STALE_SECONDS: Final = 5.0  # older statistics are not used
_HALF_LIFE: Final = 1.0  # seconds after which a measurement of a task's speed counts half ...
_HALF_TUPLES: Final = 20.0  # ... unless the task has executed fewer tuples since
_LARGEST_GAP: Final = 5.0  # largest seconds of one measurement
_NEARLY_EQUAL: Final = 0.75  # if the slowest speed is this part of the fastest or more, all speeds are taken as equal
# How busy the slowest task would be with equal shares: below the first, shares are equal; above the second, they follow
# the speeds.
_IDLE, _BUSY = 0.25, 0.5
_SLACK_SECONDS: Final = 0.5  # a smaller difference to the average waiting time is not corrected
_LARGEST_OVERHEAD: Final = 100.0  # largest ratio of a task's time to its busy time
_CORRECTION_SECONDS: Final = 5.0  # time to make waiting equal: well above the age of statistics


@dataclass(frozen=True, slots=True)
class Load:
    """The measured load of a task.

    Attributes:
        speed: tuples per second that it can execute.
        rate: tuples per second that it executes.
        waiting: number of tuples in its inbox that it has not executed.
    """

    speed: float
    rate: float
    waiting: float


def shares_of(loads: Sequence[Load | None]) -> list[float]:
    """The shares of tasks, which add up to 1; a task whose load is unknown (None) is taken as average."""
    known, tasks = [load for load in loads if load is not None], len(loads)
    if not known:
        return [1 / tasks] * tasks
    average = Load(*(sum(getattr(load, name) for load in known) / len(known) for name in ("speed", "rate", "waiting")))
    each = [load or average for load in loads]
    speeds = [load.speed for load in each]
    total = sum(speeds)
    slowest = min(speeds)
    if slowest >= _NEARLY_EQUAL * max(speeds):
        speeds = [total / tasks] * tasks
    busy = sum(load.rate for load in each) / tasks / slowest
    part = min(1.0, max(0.0, (busy - _IDLE) / (_BUSY - _IDLE)))
    seconds = sum(load.waiting for load in each) / total
    shares = []
    for load, speed in zip(each, speeds, strict=True):
        excess = load.waiting - seconds * speed
        excess = max(0.0, excess - _SLACK_SECONDS * speed) + min(0.0, excess + _SLACK_SECONDS * speed)
        share = 1 / tasks + part * (speed / total - 1 / tasks)
        shares.append(max(0.0, share - excess / (_CORRECTION_SECONDS * total)))
    whole = sum(shares)
    return [share / whole if whole else 1 / tasks for share in shares]


class _Task:
    """Measurements of one task, as sums in which older measurements count less."""

    def __init__(self) -> None:
        self._executed = self._busy = self._elapsed = 0.0
        self._waiting = 0.0
        self._at = 0.0
        self._run, self._last = "", (0.0, 0.0, 0.0)
        self._ahead = 0.0  # seconds counted as busy that the published busy seconds do not include yet

    def feed(
        self, run: str, now: float, totals: tuple[float, float, float], waiting: float, sharing: int
    ) -> tuple[float, float]:
        """Takes a measurement; returns the seconds in which the task always had work, and its busy seconds in them.

        Args:
            run: the process and its run; totals begin again with another one.
            totals: since the start of the process: seconds, executed tuples, and busy seconds.
            waiting: number of tuples in the inbox that are not executed.
            sharing: number of tasks of the process, which take turns.
        """
        if run != self._run:
            self._run, self._last, self._waiting, self._ahead = run, (0.0, 0.0, 0.0), 0.0, 0.0
        seconds, executed, busy = (total - before for total, before in zip(totals, self._last, strict=True))
        busy *= sharing
        if seconds <= 0:
            return 0.0, 0.0
        waited, self._waiting = self._waiting, waiting
        self._last, self._at = totals, now
        if seconds > _LARGEST_GAP:
            executed, busy, seconds = (each * _LARGEST_GAP / seconds for each in (executed, busy, seconds))
        if waiting and not executed and not busy:
            # A call has not returned: the process counts its busy time only when it ends.
            busy = seconds
            self._ahead += seconds
        else:
            busy, self._ahead = max(0.0, busy - self._ahead), 0.0
        expected = busy * self._executed / self._busy if self._busy else 0.0
        kept = 0.5 ** min(seconds / _HALF_LIFE, max(executed, expected) / _HALF_TUPLES)
        self._executed = kept * self._executed + executed
        self._busy = kept * self._busy + busy
        self._elapsed = kept * self._elapsed + seconds
        return (seconds, busy) if 0 < executed <= waited else (0.0, 0.0)

    def load(self, now: float, overhead: float) -> Load | None:
        """The load of the task; None if its statistics are stale, or it has done nothing yet.

        `overhead` is the ratio of the task's time to its busy time.
        """
        if not self._busy or now - self._at > STALE_SECONDS:
            return None
        # At least half a tuple: a task that has not ended its first call is slow, but has a speed.
        speed = max(self._executed, 0.5) / self._busy / overhead
        return Load(speed, self._executed / self._elapsed, self._waiting)


class TaskShares:
    def __init__(self, tasks: int) -> None:
        self._tasks = [_Task() for _ in range(tasks)]
        self._all = self._busy = 0.0  # seconds in which tasks always had work, and their busy seconds in them

    def feed(self, record: StatsRecord, now: float) -> None:
        """Takes a record of a process of the bolt, which was read at `now`, in monotonic seconds.

        Raises `ValueError`, `TypeError` or `AttributeError` if its counts have another form.
        """
        stats: Any = record.stats
        owned = [] if record.ended else [int(task) for task in stats.get("tasks", ())]
        executed, busy, waiting = (stats.get(name, {}) for name in ("task_executed", "task_busy_ms", "task_waiting"))
        for task in owned:
            if 0 <= task < len(self._tasks) and (key := str(task)) in busy:
                totals = record.uptime_ms / 1000, float(executed.get(key, 0)), float(busy[key]) / 1000
                run = f"{record.process} {record.run}"
                seconds, part = self._tasks[task].feed(run, now, totals, float(waiting.get(key, 0)), len(owned))
                kept = 0.5 ** (seconds / _HALF_LIFE / len(self._tasks))
                self._all, self._busy = kept * self._all + seconds, kept * self._busy + part

    def shares(self, now: float) -> list[float]:
        """The shares of the tasks, which add up to 1."""
        # Busy time does not include work of the SDK between calls. This work is the same for all tasks of a bolt, so a
        # single overhead is measured for all; one for each task would put lagging tasks on another scale.
        overhead = max(1.0, self._all / self._busy) if self._busy else 1.0
        loads = [task.load(now, overhead) for task in self._tasks]
        if overhead > _LARGEST_OVERHEAD and (known := [load for load in loads if load is not None]):
            # Busy times of some milliseconds show no differences in speed: only waiting tuples do.
            speed = sum(load.speed for load in known) / len(known)
            loads = [load and replace(load, speed=speed) for load in loads]
        return shares_of(loads)

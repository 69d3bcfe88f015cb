"""The shares of a bolt's tasks in shuffle groupings, from the statistics that its processes publish.

A task's share follows its speed, which is tuples executed by busy seconds. That does not depend on the share, so late
statistics cannot make it oscillate. What waits in an inbox corrects the share, slowly.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tuple_tree.process_stats import StatsRecord

STALE_SECONDS: Final = 5.0  # statistics that are older count for nothing
_HALF_LIFE: Final = 1.0  # seconds after which a measurement of a task's speed counts half ...
_HALF_TUPLES: Final = 20.0  # ... unless it has executed less than this since
_LARGEST_GAP: Final = 5.0  # seconds of one measurement
_NEARLY_EQUAL: Final = 0.75  # speeds of tasks whose slowest has this part of the fastest's are taken as equal
# How busy the slowest task would be with equal shares: below the first, shares are equal; above the second, they follow
# the speeds.
_IDLE, _BUSY = 0.25, 0.5
_SLACK_SECONDS: Final = 0.5  # of waiting, more or less than the average, that is not corrected
_LARGEST_OVERHEAD: Final = 100.0  # of a task's time, as a multiple of its busy time
_CORRECTION_SECONDS: Final = 5.0  # within which waiting would be equal: well above the age of statistics


@dataclass(frozen=True, slots=True)
class Load:
    """The load of a task, as far as it is known.

    Attributes:
        speed: tuples a second that it can execute.
        rate: tuples a second that it executes.
        waiting: tuples in its inbox that it has not executed.
    """

    speed: float
    rate: float
    waiting: float


def shares_of(loads: Sequence[Load | None]) -> list[float]:
    """The shares of tasks, which add up to 1; those whose load is not known (None) count as an average one."""
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
    """Measurements of one task, as sums in which older ones count less."""

    def __init__(self) -> None:
        self._executed = self._busy = self._elapsed = 0.0
        self._waiting = 0.0
        self._at = 0.0
        self._run, self._last = "", (0.0, 0.0, 0.0)
        self._ahead = 0.0  # seconds that were counted as busy, and are not part of the published ones yet

    def feed(
        self, run: str, now: float, totals: tuple[float, float, float], waiting: float, sharing: int
    ) -> tuple[float, float]:
        """Takes totals since the start of a process: seconds, tuples executed, and seconds that it was busy.

        `sharing` is the number of tasks of the process, which take turns. Returns the seconds in which the task has had
        work all the time, and how many of them it was busy.
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
            # A call that has not returned: it is counted as busy when it ends.
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

        `overhead` is its time by the part of it in which it is busy.
        """
        if not self._busy or now - self._at > STALE_SECONDS:
            return None
        # At least half a tuple: a task that has not ended its first call is slow, and not without any speed.
        speed = max(self._executed, 0.5) / self._busy / overhead
        return Load(speed, self._executed / self._elapsed, self._waiting)


class TaskShares:
    """The shares of one bolt's tasks."""

    def __init__(self, tasks: int) -> None:
        self._tasks = [_Task() for _ in range(tasks)]
        self._all = self._busy = 0.0  # seconds in which tasks have had work all the time, and in which they were busy

    def feed(self, record: StatsRecord, now: float) -> None:
        """Takes a record of a process of the bolt, which was read at `now`, in monotonic seconds.

        Raises `ValueError`, `TypeError` or `AttributeError` if its counts are of another form.
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
        # Work of the SDK between calls is not part of busy time. It is the same for all tasks of a bolt, so only what
        # they can do together has to be known; each by itself would be measured by another scale when it is behind.
        overhead = max(1.0, self._all / self._busy) if self._busy else 1.0
        loads = [task.load(now, overhead) for task in self._tasks]
        if overhead > _LARGEST_OVERHEAD and (known := [load for load in loads if load is not None]):
            # Busy times of some milliseconds show no differences: only what waits does.
            speed = sum(load.speed for load in known) / len(known)
            loads = [load and replace(load, speed=speed) for load in loads]
        return shares_of(loads)

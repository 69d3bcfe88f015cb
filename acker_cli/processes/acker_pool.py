"""Acker workers as supervised child processes."""

import dataclasses
import json
import logging
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Self

from acker_cli.errors import ProcessError
from acker_cli.processes.acker_process import AckerLaunch
from acker_worker.stats import WorkerStats
from kafka_clients import child_process
from kafka_clients.supervision import Backoff, describe_exit

_log = logging.getLogger(__name__)

_ARGUMENTS: Final = ("acker_cli.processes.acker_process",)
_STOP_SECONDS: Final = 20.0
_LONGEST_COUNTS: Final = ("clock_lag_ms", "rebuild_seconds", "ack_partitions", "stalled_ms")
"""Statistics of which the longest counts, not the sum."""


@dataclass(frozen=True, slots=True)
class AckerSnapshot:
    """A running worker; busy means that it owns partitions and has applied entries between its last two reports."""

    pid: int
    stats: WorkerStats | None
    is_busy: bool


def start_early(count: int) -> None:
    """Starts processes that the next pool takes, so that they import what they need meanwhile."""
    child_process.start_early(_ARGUMENTS, count)


class _Child(child_process.ChildProcess):
    """One worker process and the thread that reads its reports."""

    def __init__(self, launch: AckerLaunch, on_stats: Callable[[], None]) -> None:
        super().__init__(_ARGUMENTS, {}, lambda reports: dataclasses.replace(launch, reports=reports).to_line())
        self.error = ""
        self.began = time.monotonic()
        self._latest: deque[WorkerStats] = deque(maxlen=2)
        self._on_stats = on_stats
        self._reader = threading.Thread(target=self._read, name=f"acker-{self.pid}", daemon=True)
        self._reader.start()

    @property
    def stats(self) -> WorkerStats | None:
        return self._latest[-1] if self._latest else None

    @property
    def snapshot(self) -> AckerSnapshot:
        latest = list(self._latest)
        busy = len(latest) == 2 and latest[1].partitions > 0 and latest[1].entries > latest[0].entries
        return AckerSnapshot(self.pid, latest[-1] if latest else None, busy)

    def join(self, seconds: float) -> bool:
        """Waits for its end, and until all its reports are read; False if it still runs when the time is over."""
        try:
            self.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            return False
        self._reader.join()
        return True

    def _read(self) -> None:
        for line in self.lines():
            report: dict[str, Any] = json.loads(line)
            if "stats" in report:
                self._latest.append(WorkerStats.of(report["stats"]))
                self._on_stats()
            else:
                self.error = str(report["error"])


class _Slot:
    """A place for one worker, whichever process fills it."""

    def __init__(self) -> None:
        self.child: _Child | None = None
        self.backoff = Backoff()
        self.start_at = 0.0
        self.turned()

    def turned(self) -> None:
        self.turned_at = time.monotonic()


class AckerPool:
    """Runs so many acker workers of one topology, and starts those that end again.

    They end with this process, even if it is killed. `check`, to be called a few times a second, starts what is to be
    started; no thread does.
    """

    def __init__(self, launch: AckerLaunch, count: int) -> None:
        self._launch = launch
        self._slots = [_Slot() for _ in range(count)]
        self._past = WorkerStats()
        self._has_worked = False

    def __enter__(self) -> Self:
        self.check()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def check(self) -> None:
        """Starts what is not running; a `ProcessError` if no worker could even start."""
        now = time.monotonic()
        for slot in self._slots:
            if slot.child is not None and slot.child.exit_code is not None:
                self._reap(slot, slot.child, now)
            if slot.child is None and now >= slot.start_at:
                slot.child = _Child(self._launch, slot.turned)
        self._has_worked = self._has_worked or any(worker.stats is not None for worker in self.workers())

    def workers(self) -> list[AckerSnapshot]:
        return [child.snapshot for child in self._children() if child.exit_code is None]

    def stats(self) -> WorkerStats:
        """The sum over all workers; counters of those that have ended are included."""
        stats = [child.stats for child in self._children()]
        return summed([self._past, *(one for one in stats if one is not None)])

    def heartbeat_age(self) -> float:
        """Seconds since a worker last reported, the longest of all; 0 without any worker."""
        now = time.monotonic()
        return max((now - slot.turned_at for slot in self._slots), default=0.0)

    def kill(self, pid: int) -> None:
        """Kills a worker with SIGKILL; the next `check` starts another."""
        for child in self._children():
            if child.pid == pid:
                child.signal(signal.SIGKILL)

    def stop(self) -> None:
        """Stops all workers cleanly, and kills what has not ended in time."""
        children = self._children()
        # All at once, so that none takes over the partitions of another only to give them up itself.
        for child in children:
            child.signal(signal.SIGTERM)
        deadline = time.monotonic() + _STOP_SECONDS
        for child in children:
            if not child.join(deadline - time.monotonic()):
                child.signal(signal.SIGKILL)
                child.join(_STOP_SECONDS)

    def _children(self) -> list[_Child]:
        return [slot.child for slot in self._slots if slot.child is not None]

    def _reap(self, slot: _Slot, child: _Child, now: float) -> None:
        code = child.exit_code or 0
        child.join(_STOP_SECONDS)
        slot.child = None
        if child.stats is not None:
            self._past = summed([self._past, child.stats.retired()])
        elif code > 0 and not self._has_worked:
            raise ProcessError(child.error or f"an acker worker ended with code {code} at once: its log says why")
        pause = slot.backoff.after(now - child.began)
        slot.start_at = now + pause
        ended = describe_exit(code, child.error)
        _log.error("acker worker %d %s; another one starts in %.1f s", child.pid, ended, pause)


def summed(stats: list[WorkerStats]) -> WorkerStats:
    """The sum of snapshots of different workers; times are not added up, the longest counts."""
    total: dict[str, Any] = {}
    for field in dataclasses.fields(WorkerStats):
        values = [getattr(one, field.name) for one in stats]
        if field.name == "by_partition":
            # While a partition moves, its old and its new owner may both still show it.
            held = {one.partition: one for partitions in values for one in partitions}
            total[field.name] = tuple(held[partition] for partition in sorted(held))
        elif field.name == "stalled_by":
            total[field.name] = max(stats, key=lambda one: one.stalled_ms).stalled_by
        else:
            total[field.name] = max(values) if field.name in _LONGEST_COUNTS else sum(values)
    return WorkerStats(**total)

"""Acker workers as supervised child processes."""

import contextlib
import dataclasses
import json
import logging
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Self

from acker_cli.acker_process import AckerLaunch
from acker_cli.errors import ProcessError
from acker_worker.stats import WorkerStats

_log = logging.getLogger(__name__)

_STOP_SECONDS: Final = 20.0
_FIRST_BACKOFF: Final = 0.2
_LONGEST_BACKOFF: Final = 10.0
_HEALTHY_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class AckerSnapshot:
    """A running worker.

    Attributes:
        pid: of its process.
        stats: the last it said; None if it has not said any yet.
        is_busy: whether it owns partitions and has applied entries between its last two reports.
    """

    pid: int
    stats: WorkerStats | None
    is_busy: bool


_waiting: Final[list[subprocess.Popen[bytes]]] = []


def start_early(count: int) -> None:
    """Starts processes that the next pool takes, so that they import what they need meanwhile."""
    _waiting.extend(_spawn() for _ in range(count))


def _spawn() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "acker_cli.acker_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # A session of its own: Ctrl-C in the terminal is for the parent, which still needs it while it stops.
        start_new_session=True,
    )


class AckerChild:
    """One worker process and the thread that reads what it says.

    Args:
        launch: what it has to know.
        on_stats: called in that thread whenever it has said how it does.
    """

    def __init__(self, launch: AckerLaunch, on_stats: Callable[[], None]) -> None:
        self._process = _waiting.pop() if _waiting else _spawn()
        assert self._process.stdin is not None  # noqa: S101 - because stdin=PIPE
        self._stdin = self._process.stdin
        with contextlib.suppress(BrokenPipeError):
            self._stdin.write(launch.to_line())
            self._stdin.flush()
        self.error = ""
        self.began = time.monotonic()
        self._said: deque[WorkerStats] = deque(maxlen=2)
        self._on_stats = on_stats
        self._reader = threading.Thread(target=self._read, name=f"acker-{self.pid}", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def stats(self) -> WorkerStats | None:
        """The last it said; None if it has not said any yet."""
        return self._said[-1] if self._said else None

    @property
    def snapshot(self) -> AckerSnapshot:
        """What is known of it."""
        said = list(self._said)
        busy = len(said) == 2 and said[1].partitions > 0 and said[1].entries > said[0].entries
        return AckerSnapshot(self.pid, said[-1] if said else None, busy)

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal; nothing happens if it has ended."""
        self._process.send_signal(number)

    def join(self, seconds: float) -> bool:
        """Waits for its end, and until all that it said is read.

        Returns:
            False if it still runs when the time is over.
        """
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, seconds))
        if self._process.returncode is None:
            return False
        self._reader.join()
        with contextlib.suppress(BrokenPipeError):
            self._stdin.close()
        return True

    def _read(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - because stdout=PIPE
        with self._process.stdout as pipe:
            for line in pipe:
                if not line.endswith(b"\n"):
                    break  # half a line of a process that was killed
                said: dict[str, Any] = json.loads(line)
                if "stats" in said:
                    self._said.append(WorkerStats.of(said["stats"]))
                    self._on_stats()
                else:
                    self.error = str(said["error"])


class _Slot:
    """A place for one worker, whichever process fills it."""

    def __init__(self) -> None:
        self.child: AckerChild | None = None
        self.backoff = _FIRST_BACKOFF
        self.start_at = 0.0
        self.heard_at = time.monotonic()

    def hear(self) -> None:
        """Notes that the worker turns its loop."""
        self.heard_at = time.monotonic()


class AckerPool:
    """Runs acker workers of one topology, and starts those that end again.

    They end with this process, even if it is killed. Nothing happens behind the caller's back: `check` does what
    there is to do, and is to be called a few times a second.

    Args:
        launch: what the workers have to know.
        count: how many there are.
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
        """Starts what is not running.

        Raises:
            ProcessError: if no worker could even start.
        """
        now = time.monotonic()
        for slot in self._slots:
            if slot.child is not None and slot.child.exit_code is not None:
                self._reap(slot, slot.child, now)
            if slot.child is None and now >= slot.start_at:
                slot.child = AckerChild(self._launch, slot.hear)
        self._has_worked = self._has_worked or any(worker.stats is not None for worker in self.workers())

    def workers(self) -> list[AckerSnapshot]:
        """The workers that run."""
        return [slot.child.snapshot for slot in self._slots if slot.child is not None and slot.child.exit_code is None]

    def stats(self) -> WorkerStats:
        """The sum over all workers; counters of those that have ended are included."""
        stats = [slot.child.stats for slot in self._slots if slot.child is not None]
        return summed([self._past, *(one for one in stats if one is not None)])

    def silence(self) -> float:
        """Seconds since a worker was heard of, of that of which it is the longest ago; 0 without any worker."""
        now = time.monotonic()
        return max((now - slot.heard_at for slot in self._slots), default=0.0)

    def kill(self, pid: int) -> None:
        """Kills a worker with SIGKILL; the next `check` starts another."""
        for slot in self._slots:
            if slot.child is not None and slot.child.pid == pid:
                slot.child.signal(signal.SIGKILL)

    def stop(self) -> None:
        """Stops all workers cleanly, and kills what has not ended in time."""
        children = [slot.child for slot in self._slots if slot.child is not None]
        # All at once, so that none takes over the partitions of another only to give them up itself.
        for child in children:
            child.signal(signal.SIGTERM)
        deadline = time.monotonic() + _STOP_SECONDS
        for child in children:
            if not child.join(deadline - time.monotonic()):
                child.signal(signal.SIGKILL)
                child.join(_STOP_SECONDS)

    def _reap(self, slot: _Slot, child: AckerChild, now: float) -> None:
        code = child.exit_code or 0
        child.join(_STOP_SECONDS)
        slot.child = None
        if child.stats is not None:
            self._past = summed([self._past, child.stats.retired()])
        elif code > 0 and not self._has_worked:
            raise ProcessError(child.error or f"an acker worker ended with code {code} at once: its log says why")
        if now - child.began >= _HEALTHY_SECONDS:
            slot.backoff = _FIRST_BACKOFF
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        why = f": {child.error}" if child.error else ""
        _log.error("acker worker %d %s%s; another one starts in %.1f s", child.pid, how, why, slot.backoff)
        slot.start_at = now + slot.backoff
        slot.backoff = min(_LONGEST_BACKOFF, 2 * slot.backoff)


def summed(stats: list[WorkerStats]) -> WorkerStats:
    """The sum of snapshots of different workers; times are not added up, the longest counts."""
    total: dict[str, Any] = {}
    most = ("clock_lag_ms", "rebuild_seconds", "ack_partitions", "stalled_ms")
    for field in dataclasses.fields(WorkerStats):
        values = [getattr(one, field.name) for one in stats]
        if field.name == "by_partition":
            # While a partition moves, its old and its new owner may both still show it.
            held = {one.partition: one for partitions in values for one in partitions}
            total[field.name] = tuple(held[partition] for partition in sorted(held))
        elif field.name == "stalled_by":
            total[field.name] = max(stats, key=lambda one: one.stalled_ms).stalled_by
        else:
            total[field.name] = max(values) if field.name in most else sum(values)
    return WorkerStats(**total)

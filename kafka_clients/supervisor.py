"""Keeps processes running: the components of a topology, or acker workers."""

import logging
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, Protocol, Self, TypeVar

from kafka_clients.child_process import ChildProcess

logger = logging.getLogger(__name__)

STOP_SECONDS: Final = 20.0


class Statistics(Protocol):
    def retired(self) -> Self: ...  # of a process that has ended


S = TypeVar("S", bound=Statistics)


def describe_exit(code: int, error: str) -> str:
    """How a process ended, and why; a negative code is a signal's, and the error is empty if it reported none."""
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
    return f"{how}: {error}" if error else how


class Backoff:
    """The pauses between the runs in one place, in seconds: each twice the last, until one has run for `healthy`."""

    def __init__(self, first: float = 0.2, longest: float = 10.0, healthy: float = 30.0) -> None:
        self._first = self._pause = first
        self._longest = longest
        self._healthy = healthy

    def after(self, ran_s: float) -> float:
        """Seconds until the next start, after a run of so many."""
        pause = self._first if ran_s >= self._healthy else self._pause
        self._pause = min(self._longest, 2 * pause)
        return pause


class Slot(Generic[S]):
    """A place for one process, whichever fills it.

    Attributes:
        name: of what it runs; several slots may run the same.
        start: starts a process.
        past: sum of the statistics of the processes that have ended.
        latest: the last two statistics that the running process has reported.
        error: why a process ends, as it reported.
    """

    def __init__(self, name: str, start: Callable[[], ChildProcess], past: S) -> None:
        self.name = name
        self.start = start
        self.past = past
        self.latest: deque[S] = deque(maxlen=2)
        self.child: ChildProcess | None = None
        self.heartbeat_at = time.monotonic()
        self.error = ""
        self.backoff = Backoff()

    @property
    def running_stats(self) -> Sequence[S]:
        """The last statistics of the running process, if it has reported any."""
        return list(self.latest)[-1:]

    @property
    def running(self) -> ChildProcess | None:
        return self.child if self.child is not None and self.child.is_running else None


class Supervisor(ABC, Generic[S]):
    """Runs a process for each slot, and starts another one when it ends, a little later each time.

    They end with this process, even if it is killed. A thread for each slot reads what its process reports.

    Args:
        stats_of: reads statistics that a process has reported.
        add: adds statistics of processes with the same name.
        failure: makes the exception for a name and why it stops.
    """

    def __init__(
        self,
        stats_of: Callable[[Mapping[str, Any]], S],
        add: Callable[[S, S], S],
        failure: Callable[[str, str], Exception],
    ) -> None:
        self._stats_of = stats_of
        self._add = add
        self._failure_of = failure
        self._slots: list[Slot[S]] = []
        self._threads: list[threading.Thread] = []
        self._changed = threading.Condition()
        self._stopping = False
        self._failure: Exception | None = None
        self._reported: set[str] = set()  # names of slots whose processes have reported statistics

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Starts all processes."""
        for number, slot in enumerate(self._slots):
            thread = threading.Thread(
                target=self._supervise_guarded, args=(slot,), name=f"supervise-{slot.name}-{number}", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Stops all processes cleanly, and kills what has not ended after so many seconds."""
        self.request_stop()
        with self._changed:
            self._changed.notify_all()
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        for slot in self._slots:
            if (child := slot.running) is not None:
                logger.warning("process %d of %s did not stop in time and is killed", child.pid, slot.name)
                child.signal(signal.SIGKILL)
        for thread in self._threads:
            thread.join()

    def request_stop(self) -> None:
        """Asks all processes to stop, without waiting; safe in a signal handler."""
        self._stopping = True
        for slot in self._slots:
            if slot.child is not None:
                slot.child.signal(signal.SIGTERM)

    def heartbeat_ages(self) -> dict[str, float]:
        """Name → seconds since the latest heartbeat of its process that has the oldest one.

        A process sends one about twice a second, from its loop: not while its component blocks it, and not if it ends
        again and again before it has started.
        """
        now = time.monotonic()
        longest: dict[str, float] = {}
        for slot in self._slots:
            longest[slot.name] = max(longest.get(slot.name, 0.0), now - slot.heartbeat_at)
        return longest

    @abstractmethod
    def _on_exit(self, slot: Slot[S], pid: int, code: int, pause: float) -> Exception | None:
        """Logs the end of a process; returns why everything stops, or None to start another one after the pause."""

    def _sums(self) -> dict[str, S]:
        """The statistics of all processes, the ended ones included, by name."""
        sums: dict[str, S] = {}
        # What a process did must not be seen twice, or not at all, while it becomes the past: counts never go back.
        with self._changed:
            for slot in self._slots:
                for stats in (slot.past, *slot.running_stats):
                    sums[slot.name] = self._add(sums[slot.name], stats) if slot.name in sums else stats
        return sums

    def _supervise_guarded(self, slot: Slot[S]) -> None:
        """An unexpected exception of the thread stops all processes; it is no clean end."""
        try:
            self._supervise(slot)
        except Exception as error:
            logger.exception("the supervisor of %s crashed", slot.name)
            self._give_up(self._failure_of(slot.name, f"its supervisor raised {type(error).__name__}: {error}"))

    def _supervise(self, slot: Slot[S]) -> None:
        while not self._is_stopping():
            began = time.monotonic()
            child = slot.child = slot.start()
            if self._is_stopping():
                child.signal(signal.SIGTERM)
            self._follow(slot, child)
            code = child.wait()
            with self._changed:
                for stats in slot.running_stats:
                    slot.past = self._add(slot.past, stats.retired())
                slot.latest.clear()
                self._changed.notify_all()
            if self._is_stopping():
                return
            pause = slot.backoff.after(time.monotonic() - began)
            failure = self._on_exit(slot, child.pid, code, pause)
            if failure is not None:
                self._give_up(failure)
                return
            slot.error = ""
            with self._changed:
                self._changed.wait_for(self._is_stopping, pause)

    def _is_stopping(self) -> bool:
        return self._stopping

    def _follow(self, slot: Slot[S], child: ChildProcess) -> None:
        for report in child.reports():
            if "stats" not in report:
                slot.error = str(report.get("error", ""))
                continue
            with self._changed:
                slot.latest.append(self._stats_of(report["stats"]))
                slot.heartbeat_at = time.monotonic()
                self._reported.add(slot.name)
                self._changed.notify_all()

    def _give_up(self, failure: Exception) -> None:
        self.request_stop()
        with self._changed:
            self._failure = self._failure or failure
            self._changed.notify_all()

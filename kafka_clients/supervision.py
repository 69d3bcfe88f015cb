"""Processes that are kept running: workers of a topology, or acker workers; both sides of the pipes between.

The supervisor writes one line, the launch, to the standard input of a process, because settings may hold passwords and
so stand neither on a command line nor in the environment. That input ends with the supervisor, however it ended. The
process reports on a pipe of its own: standard output belongs to the user's code, and goes to standard error.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any, Final, Generic, Protocol, Self, TypeVar

from kafka_clients.errors import AckerError
from kafka_clients.repeated_lines import get_logger
from tuple_tree.errors import describe, text_of

logger = get_logger(__name__)

_STDIN: Final = 0


def read_launch() -> dict[str, Any] | None:
    """Reads the launch line that the supervisor writes first; None if the supervisor is gone."""
    # Byte by byte, because nothing may be buffered of what `stop_at_end_of` reads.
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(_STDIN, 1)):
        line += byte
    return json.loads(line) if line.endswith(b"\n") else None


def send_report(descriptor: int, report: Mapping[str, Any]) -> None:
    """Sends `stats`, or the `error` that ends this process, to the supervisor; nothing once that is gone."""
    line = json.dumps(report, separators=(",", ":")).encode() + b"\n"
    with contextlib.suppress(BrokenPipeError):
        while line:
            line = line[os.write(descriptor, line) :]


def run_reporting(
    run: Callable[[], object],
    report: Callable[[Mapping[str, Any]], object],
    exit_code: Callable[[BaseException], int] = lambda _error: 1,
) -> int:
    """Runs a process, or a thread of it, reports the error by which it ends, and returns the exit code."""
    try:
        run()
    except BaseException as error:  # a thread that the user's code ends by sys.exit() ends the process as well
        why = text_of(error)
        if not isinstance(error, AckerError):
            logger.exception("the process ends")
            why = f"{describe(error)}; the log has the traceback"
        report({"error": why})
        return exit_code(error)
    return 0


def stop_with_supervisor(stop: Callable[[], None], orphan_s: float) -> None:
    """Calls `stop` at SIGTERM, SIGINT and when standard input has a byte or ends; an orphan ends after `orphan_s`."""

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    stop_at_end_of(_STDIN, stop, orphan_s)


def stop_at_end_of(
    pipe: int, stop: Callable[[], object], orphan_s: float, end: Callable[[int], object] = os._exit
) -> None:
    """Calls `stop`, in a thread, at the first byte or the end of a pipe that the parent process holds open.

    The operating system ends the pipe even if the parent is killed. `end` is called if the process still runs
    `orphan_s` later: its main thread may be blocked, and the parent that would kill it is gone.
    """

    def watch() -> None:
        if not os.read(pipe, 1):
            logger.warning("the process that started this one has ended: stopping")
        stop()
        threading.Event().wait(orphan_s)
        end(1)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


_POLL_SECONDS: Final = 0.2
_READ_BYTES: Final = 1 << 16
# The import of numpy starts a thread of OpenBLAS for each core: a fifth of the CPU time of a start.
_UNLESS_SET: Final = {"OPENBLAS_NUM_THREADS": "1"}
Arguments = tuple[str, ...]  # a module, and the arguments of its command line


class ChildProcess:
    """A process that imports what it needs, and runs when it is launched."""

    def __init__(self, arguments: Arguments, environment: Mapping[str, str]) -> None:
        self._reports, self._their_reports = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                stdin=subprocess.PIPE,
                stdout=2,
                pass_fds=(self._their_reports,),
                env={**_UNLESS_SET, **os.environ, **environment},
                # Ctrl-C in a terminal is for the supervisor alone, which stops its processes.
                start_new_session=True,
            )
        finally:
            os.close(self._their_reports)
        assert self._process.stdin is not None  # noqa: S101 - because stdin=PIPE
        self._stdin = self._process.stdin

    def launch(self, launch: Mapping[str, Any]) -> Self:
        """Lets it run: `launch`, and `reports`, the file descriptor for its reports, go to its standard input."""
        with contextlib.suppress(BrokenPipeError):
            self._stdin.write(json.dumps({**launch, "reports": self._their_reports}).encode() + b"\n")
            self._stdin.flush()
        return self

    def discard(self) -> None:
        """Ends a process that was not launched."""
        self._process.kill()
        self.wait()
        os.close(self._reports)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def reports(self) -> Iterator[dict[str, Any]]:
        """Yields what it reports until it ends.

        The end of the pipe is not waited for: processes that it has forked, a pool for instance, keep it open.
        """
        unfinished = b""
        try:
            while True:
                ended = not self.is_running  # asked before reading, so that nothing it wrote is missed
                while select.select([self._reports], [], [], 0 if ended else _POLL_SECONDS)[0]:
                    read = os.read(self._reports, _READ_BYTES)
                    if not read:
                        return
                    *lines, unfinished = (unfinished + read).split(b"\n")
                    yield from map(json.loads, lines)
                if ended:
                    return
        finally:
            os.close(self._reports)

    def wait(self) -> int:
        """Waits for its end, and returns its exit code."""
        code = self._process.wait()
        with contextlib.suppress(BrokenPipeError):
            self._stdin.close()
        return code


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
        """Seconds until the next start, after a run of `ran_s` seconds."""
        pause = self._first if ran_s >= self._healthy else self._pause
        self._pause = min(self._longest, 2 * pause)
        return pause


class Slot(Generic[S]):
    """A place for one process, whichever fills it.

    Attributes:
        loops: names of the loops that it runs; several slots may run the same.
        spawn: starts a process.
        launch: makes its launch.
        past: name → sum of the statistics of ended processes; a process also reports those of its chained bolts.
        latest: name → the last statistics that the running process has reported.
        heartbeats: loop → the time of its last report.
        failed: the loop that ends a process, as it reported; the first one if none did.
        error: why it ends it; empty if none reported an error.
    """

    def __init__(
        self,
        loops: Sequence[str],
        spawn: Callable[[], ChildProcess],
        launch: Callable[[], Mapping[str, Any]],
        past: Mapping[str, S],
    ) -> None:
        self.loops = tuple(loops)
        self.spawn = spawn
        self.launch = launch
        self.past = dict(past)
        self.latest: dict[str, S] = {}
        self.child: ChildProcess | None = None
        self.heartbeats = dict.fromkeys(loops, time.monotonic())
        self.forget_error()
        self.backoff = Backoff()

    @property
    def name(self) -> str:
        """The names of its loops, for logs."""
        return ", ".join(self.loops)

    def forget_error(self) -> None:
        self.failed, self.error = self.loops[0], ""

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
        self._reported: set[str] = set()  # names with statistics

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
        """Stops all processes cleanly, and kills those still running after `seconds`."""
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
        """Name → seconds since the latest heartbeat of its loop, in the process that has the oldest one.

        A loop sends one about twice a second, also while an `execute` takes long: not while its component blocks it in
        another method, and not if the process ends again and again before it has started.
        """
        now = time.monotonic()
        longest: dict[str, float] = {}
        for slot in self._slots:
            for name, at in slot.heartbeats.items():
                longest[name] = max(longest.get(name, 0.0), now - at)
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
                for name, past in slot.past.items():
                    stats = self._add(past, slot.latest[name]) if name in slot.latest else past
                    sums[name] = self._add(sums[name], stats) if name in sums else stats
        return sums

    def _supervise_guarded(self, slot: Slot[S]) -> None:
        """An unexpected exception of the thread stops all processes; it is not a clean end."""
        try:
            self._supervise(slot)
        except Exception as error:
            logger.exception("the supervisor of %s crashed", slot.name)
            self._give_up(self._failure_of(slot.name, f"its supervisor raised {type(error).__name__}: {error}"))

    def _supervise(self, slot: Slot[S]) -> None:
        child = slot.spawn()
        while not self._is_stopping():
            began = time.monotonic()
            slot.child = child.launch(slot.launch())
            if self._is_stopping():
                child.signal(signal.SIGTERM)
            self._follow(slot, child)
            code = child.wait()
            with self._changed:
                for name, latest in slot.latest.items():
                    slot.past[name] = self._add(slot.past[name], latest.retired())
                slot.latest = {}
                self._changed.notify_all()
            if self._is_stopping():
                return
            pause = slot.backoff.after(time.monotonic() - began)
            failure = self._on_exit(slot, child.pid, code, pause)
            if failure is not None:
                self._give_up(failure)
                return
            slot.forget_error()
            child = slot.spawn()  # it imports what it needs during the pause
            with self._changed:
                self._changed.wait_for(self._is_stopping, pause)
        child.discard()

    def _is_stopping(self) -> bool:
        return self._stopping

    def _follow(self, slot: Slot[S], child: ChildProcess) -> None:
        for report in child.reports():
            name = report.get("name", slot.loops[0])
            if "stats" not in report:
                if not slot.error:  # other loops may fail because the first one has
                    slot.failed, slot.error = name, str(report.get("error", ""))
                continue
            with self._changed:
                slot.latest[name] = self._stats_of(report["stats"])
                if name in slot.heartbeats:
                    slot.heartbeats[name] = time.monotonic()
                self._reported.add(name)
                self._changed.notify_all()

    def _give_up(self, failure: Exception) -> None:
        self.request_stop()
        with self._changed:
            self._failure = self._failure or failure
            self._changed.notify_all()

"""A process that a supervisor has started."""

import contextlib
import os
import select
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from spout_sdk.runtime.launch import Launch, Report

_POLL_S: Final = 0.2
_READ_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class _Spawned:
    """A process that imports what it needs, and then waits for its launch on standard input."""

    process: subprocess.Popen[bytes]
    reports: int
    their_reports: int

    @classmethod
    def of(cls, reference: str, component: str, environment: Mapping[str, str]) -> Self:
        ours, theirs = os.pipe()
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", "spout_sdk.runtime.process", reference, component],
                stdin=subprocess.PIPE,
                stdout=2,  # what user code prints must not mix with what this process prints
                pass_fds=(theirs,),
                env={**os.environ, **environment},
                # Ctrl-C in a terminal is for the supervisor alone, which stops its processes.
                start_new_session=True,
            )
        finally:
            os.close(theirs)
        return cls(process, ours, theirs)


_waiting: Final[defaultdict[tuple[str, str], list[_Spawned]]] = defaultdict(list)


def start_early(reference: str, component: str, count: int = 1) -> None:
    """Starts processes that the next runner of a component takes, so that they import what they need meanwhile.

    For a program that has something to wait for first, such as a broker that starts. They have the environment of this
    moment, and end with this process.
    """
    _waiting[reference, component] += [_Spawned.of(reference, component, {}) for _ in range(count)]


class Child:
    """One running process of a component."""

    def __init__(
        self,
        reference: str,
        component: str,
        kafka: Mapping[str, Any],
        tasks: tuple[int, ...] | None,
        slot: str,
        environment: Mapping[str, str],
        log_level: int,
    ) -> None:
        waiting = _waiting[reference, component]
        spawned = waiting.pop() if waiting and not environment else _Spawned.of(reference, component, environment)
        self._process, self._reports = spawned.process, spawned.reports
        path = tuple(os.path.abspath(entry) for entry in sys.path)
        launch = Launch(dict(kafka), spawned.their_reports, tasks, slot, path, log_level)
        assert self._process.stdin is not None  # noqa: S101 - because stdin=PIPE
        self._stdin = self._process.stdin
        with contextlib.suppress(BrokenPipeError):
            self._stdin.write(launch.to_line())
            self._stdin.flush()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def reports(self) -> Iterator[Report]:
        """Yields what it reports until it ends.

        The end of the pipe is not waited for: processes that it has forked, a pool for instance, keep it open.
        """
        unfinished = b""
        try:
            while True:
                ended = not self.is_running  # asked before reading, so that nothing it wrote is missed
                while select.select([self._reports], [], [], 0 if ended else _POLL_S)[0]:
                    read = os.read(self._reports, _READ_BYTES)
                    if not read:
                        return
                    *lines, unfinished = (unfinished + read).split(b"\n")
                    yield from map(Report.from_line, lines)
                if ended:
                    return
        finally:
            os.close(self._reports)

    def wait(self) -> int:
        code = self._process.wait()
        with contextlib.suppress(BrokenPipeError):
            self._stdin.close()
        return code

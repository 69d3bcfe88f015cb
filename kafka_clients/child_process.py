"""A process of Python that a supervisor has started: a line on its standard input, and its reports on a pipe.

Standard output belongs to the user's code, and what it prints goes to standard error.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

_POLL_S: Final = 0.2
_READ_BYTES: Final = 1 << 16
Arguments = tuple[str, ...]  # a module, and the arguments of its command line


_Spawned = tuple[subprocess.Popen[bytes], int, int]  # a process, and the two ends of the pipe of its reports


def _spawn(arguments: Arguments, environment: Mapping[str, str]) -> _Spawned:
    """Starts a process that imports what it needs, and then waits for its launch on standard input."""
    ours, theirs = os.pipe()
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            stdin=subprocess.PIPE,
            stdout=2,
            pass_fds=(theirs,),
            env={**os.environ, **environment},
            # Ctrl-C in a terminal is for the supervisor alone, which stops its processes.
            start_new_session=True,
        )
    finally:
        os.close(theirs)
    return process, ours, theirs


_waiting: Final[defaultdict[Arguments, list[_Spawned]]] = defaultdict(list)


def start_early(arguments: Arguments, count: int) -> None:
    """Starts processes that the next supervisor takes, so that they import what they need while a broker starts.

    They have the environment of this moment, and end with this process.
    """
    _waiting[arguments] += [_spawn(arguments, {}) for _ in range(count)]


def end_waiting() -> None:
    """Ends the processes that were started early and that no supervisor took."""
    for process, ours, _ in (spawned for several in _waiting.values() for spawned in several):
        process.kill()
        process.communicate()
        os.close(ours)
    _waiting.clear()


class ChildProcess:
    """One running process; `launch`, and `reports`, the file descriptor for its reports, go to its standard input."""

    def __init__(self, arguments: Arguments, environment: Mapping[str, str], launch: Mapping[str, Any]) -> None:
        waiting = _waiting[arguments]
        spawned = waiting.pop() if waiting and not environment else _spawn(arguments, environment)
        self._process, self._reports, their_reports = spawned
        assert self._process.stdin is not None  # noqa: S101 - because stdin=PIPE
        self._stdin = self._process.stdin
        with contextlib.suppress(BrokenPipeError):
            self._stdin.write(json.dumps({**launch, "reports": their_reports}).encode() + b"\n")
            self._stdin.flush()

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
                while select.select([self._reports], [], [], 0 if ended else _POLL_S)[0]:
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

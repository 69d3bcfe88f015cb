"""A process that a supervisor starts, stops and starts again.

The supervisor writes one line to its standard input, because settings may hold passwords and so stand neither on a
command line nor in the environment. That input ends with the supervisor, however it went.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final

_FIRST_BACKOFF_S: Final = 0.2
_LONGEST_BACKOFF_S: Final = 10.0
_HEALTHY_S: Final = 30.0


class Backoff:
    """The pauses between the processes of one place: each twice the last, until one has run for 30 s."""

    def __init__(self) -> None:
        self._pause = _FIRST_BACKOFF_S

    def after(self, ran_s: float) -> float:
        """Seconds until the next start, after a process that ran for so many."""
        pause = _FIRST_BACKOFF_S if ran_s >= _HEALTHY_S else self._pause
        self._pause = min(_LONGEST_BACKOFF_S, 2 * pause)
        return pause


def describe_exit(code: int, error: str) -> str:
    """How a process ended, and why; a negative code is a signal's, and the error is empty if it reported none."""
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
    return f"{how}: {error}" if error else how


def read_launch() -> bytes:
    """The line that the supervisor writes first; not a whole one if the supervisor is gone."""
    # Byte by byte, because nothing may be buffered of what `stop_with_supervisor` watches.
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(0, 1)):
        line += byte
    return line


def send_report(descriptor: int, line: bytes) -> None:
    """Writes a line to the supervisor; nothing once that is gone."""
    with contextlib.suppress(BrokenPipeError):
        while line:
            line = line[os.write(descriptor, line) :]


def stop_with_supervisor(stop: Callable[[], None], orphan_s: float) -> None:
    """Calls `stop` at SIGTERM, SIGINT and the end of standard input; an orphan ends after `orphan_s` at most."""

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)

    def watch() -> None:
        while os.read(0, 4096):
            pass
        stop()
        # The main thread may be blocked, and the supervisor that would kill this process is gone.
        threading.Event().wait(orphan_s)
        os._exit(1)

    threading.Thread(target=watch, name="supervisor-watch", daemon=True).start()

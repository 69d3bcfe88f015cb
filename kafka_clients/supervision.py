"""A process that a supervisor starts, stops and starts again.

The supervisor writes one line to its standard input, because settings may hold passwords and so stand neither on a
command line nor in the environment. That input ends with the supervisor, however it went.
"""

import contextlib
import json
import os
import signal
import threading
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any


def read_launch() -> dict[str, Any] | None:
    """What the supervisor writes first; None if the supervisor is gone."""
    # Byte by byte, because nothing may be buffered of what `stop_with_supervisor` watches.
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(0, 1)):
        line += byte
    return json.loads(line) if line.endswith(b"\n") else None


def send_report(descriptor: int, report: Mapping[str, Any]) -> None:
    """Sends `stats`, or the `error` that ends this process, to the supervisor; nothing once that is gone."""
    line = json.dumps(report, separators=(",", ":")).encode() + b"\n"
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

"""How a child process ends with its parent, whatever way that goes: standard input is a pipe that only it holds."""

import os
import threading
from collections.abc import Callable
from typing import Final

ORPHAN_SECONDS: Final = 10.0
"""How long an orphan may take to stop cleanly."""


def read_line() -> bytes:
    """The line that the parent wrote first; empty if there is no parent.

    Read byte by byte, because nothing may be buffered of what `end_with_parent` watches.
    """
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            break
        line += byte
    return line


def end_with_parent(stop: Callable[[], None]) -> None:
    """Calls `stop` when standard input ends; ends the process if it is still there some time later."""

    def watch() -> None:
        while os.read(0, 4096):
            pass
        stop()
        threading.Event().wait(ORPHAN_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()

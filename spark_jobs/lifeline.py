"""How a driver stops when the process that submitted it asks for that, or is gone, even by SIGKILL.

It is a named pipe: the submitter holds the end to write, and the driver reads until it closes. A byte before that means
a normal stop. The pipe has a name because the driver is a child of Java, which hands on no descriptors, only the
environment. A driver that runs elsewhere on a cluster does not get the variable, and lives on.
"""

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

VARIABLE: Final = "ACKER_SPARK_LIFELINE"
"""Names the pipe."""

_STOP_SECONDS: Final = 120.0

logger = logging.getLogger("spark_jobs.submit")


class Lifeline:
    """The submitter's end of the pipe, in a new directory for it alone, which the driver removes."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "lifeline"
        os.mkfifo(self.path, 0o600)
        # An end to write can only be opened while there is one to read.
        reading = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        self._writing: int | None = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
        os.close(reading)

    def end(self) -> bool:
        """Makes the driver stop; returns whether there is one that reads."""
        if self._writing is None:
            return False
        descriptor, self._writing = self._writing, None
        try:
            os.write(descriptor, b"\n")
        except BrokenPipeError:
            return False
        finally:
            os.close(descriptor)
        return True


def stop_with_submitter(
    stop: Callable[[], object], environment: Mapping[str, str], end: Callable[[int], object] = os._exit
) -> None:
    """Calls `stop` when the other end closes, in a thread; calls `end` if the process is still there 120 s later."""
    if VARIABLE not in environment:
        return
    path = Path(environment[VARIABLE])
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        stop()
        return
    os.set_blocking(descriptor, True)
    # The name is not needed any more, and a submitter that is killed does not remove it.
    with contextlib.suppress(OSError):
        path.unlink()
        path.parent.rmdir()

    def watch() -> None:
        last = b""
        while read := os.read(descriptor, 16):
            last = read
        if not last:
            logger.warning("the process that submitted this is gone: stopping")
        stop()
        threading.Event().wait(_STOP_SECONDS)
        end(1)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()

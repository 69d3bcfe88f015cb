"""How a driver learns that whoever submitted it wants it to stop, or is gone, however it went.

It is a named pipe: the one who submits holds its end to write; when that closes, be it by SIGKILL, the driver reads the
end of the file. A byte before it says that it was meant. The pipe has a name because the driver is a child of Java,
which hands on no descriptors, nothing but the environment. That does not reach a driver that runs elsewhere on a
cluster, and such a one is to live on.
"""

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

VARIABLE: Final = "ACKER_SPARK_LIFELINE"
"""Where a driver finds the pipe."""

_STOP_SECONDS: Final = 120.0
"""How long a driver may take to stop."""

logger = logging.getLogger("spark_jobs.submit")


class Lifeline:
    """The end of the one who submits.

    Args:
        directory: a new one for it alone; gone as soon as the driver holds the other end.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / "lifeline"
        os.mkfifo(self.path, 0o600)
        # An end to write is only given out while there is one to read.
        reading = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        self._writing: int | None = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
        os.close(reading)

    def end(self) -> bool:
        """Tells the driver to stop; returns whether there is one that hears it."""
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
    """Calls `stop` when the other end closes; ends the process if it is still there some time later.

    Args:
        stop: asks the driver to stop; called in a thread of its own, or at once if it is too late already.
        environment: of the driver.
        end: ends the process with an exit code.
    """
    if VARIABLE not in environment:
        return
    path = Path(environment[VARIABLE])
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        stop()
        return
    os.set_blocking(descriptor, True)
    # Nobody needs the name any more, and who is killed does not tidy up.
    with contextlib.suppress(OSError):
        path.unlink()
        path.parent.rmdir()

    def watch() -> None:
        told = b""
        while read := os.read(descriptor, 16):
            told = read
        if not told:
            logger.warning("whoever submitted this is gone: stopping")
        stop()
        threading.Event().wait(_STOP_SECONDS)
        end(1)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()

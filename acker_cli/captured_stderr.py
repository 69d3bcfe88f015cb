"""Standard error while a live view owns the screen: what anything writes there goes through the view, line by line."""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_STDERR = 2


@contextmanager
def captured_stderr(on_line: Callable[[str], None]) -> Iterator[None]:
    """Redirects the file descriptor, so that child processes and C libraries are caught as well.

    Args:
        on_line: called for each line, in a thread of its own; it must not write to standard error itself.
    """
    sys.stderr.flush()
    original = os.dup(_STDERR)
    incoming, outgoing = os.pipe()
    os.dup2(outgoing, _STDERR)
    os.close(outgoing)

    def read() -> None:
        # A child that outlives the view holds the pipe open, so the thread is a daemon and nobody waits long for it.
        with open(incoming, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                on_line(line.rstrip("\n"))

    reader = threading.Thread(target=read, name="captured-stderr", daemon=True)
    reader.start()
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(original, _STDERR)
        os.close(original)
        reader.join(1.0)

"""Waiting for conditions, with a deadline and an error that names the condition."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(condition: Callable[[], T], what: str, deadline_s: float = 60.0) -> T:
    """Returns the condition's first true value; it is called every 20 ms at first and every 250 ms later.

    Raises:
        AssertionError: after the deadline, with what was awaited.
    """
    pause, pause_s = threading.Event(), 0.02
    end = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline_s:g} s: {what}; last value {value!r}")
        pause.wait(pause_s)
        pause_s = min(0.25, pause_s * 1.3)

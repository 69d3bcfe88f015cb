"""Waiting for conditions, with a deadline and a message that says what was awaited."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(condition: Callable[[], T], what: str, deadline_s: float = 60.0) -> T:
    """Returns the condition's first true value; fails after the deadline, saying what was awaited."""
    pause = threading.Event()
    end = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline_s:g} s: {what}; last value {value!r}")
        pause.wait(0.02)

"""Calls into librdkafka that may never return, made to end: the process ends, and its supervisor starts it again.

A call that a broker's failure has caught does not always heed its timeout
(https://github.com/confluentinc/librdkafka/issues/5456, https://github.com/confluentinc/librdkafka/issues/5511), and
nothing can interrupt it. Whatever it was about is in Kafka, where the process's successor goes on from.
"""

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Final

_log = logging.getLogger(__name__)

_LOOK_S: Final = 0.5
_running: Final[dict[object, tuple[float, float, str]]] = {}


@contextmanager
def bounded(seconds: float, what: str) -> Iterator[None]:
    """Ends the process with code 1 if what is inside takes longer.

    Args:
        seconds: longer than the call may take by its own timeout.
        what: is called, for the log.
    """
    _watch()
    call = object()
    _running[call] = (time.monotonic() + seconds, seconds, what)
    try:
        yield
    finally:
        del _running[call]


@cache
def _watch() -> None:
    threading.Thread(target=_end_late, name="bounded-calls", daemon=True).start()


def _end_late() -> None:
    pause = threading.Event()
    while not pause.wait(_LOOK_S):
        now = time.monotonic()
        for deadline, seconds, what in list(_running.values()):
            if now > deadline:
                _log.critical(
                    "%s has not returned for %.0f s: the client hangs, and this process ends. Nothing is lost: start "
                    "it again, if its supervisor does not",
                    *(what, seconds),
                )
                logging.shutdown()
                os._exit(1)

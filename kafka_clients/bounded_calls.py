"""Calls into librdkafka that may never return, made to end: the process ends, and its supervisor starts it again.

A call that is running when a broker fails may ignore its timeout
(https://github.com/confluentinc/librdkafka/issues/5456, https://github.com/confluentinc/librdkafka/issues/5511), and
nothing can interrupt it. Its state is in Kafka, where the next process goes on.
"""

import logging
import math
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Final

_log = logging.getLogger(__name__)
HANG_S: Final = 60.0  # after how long a call without a timeout of its own counts as hanging, in seconds
_CHECK_S: Final = 0.5
_running: Final[set["_Call"]] = set()


@dataclass(eq=False)
class _Call:
    seconds: float
    what: str
    checks: int  # how many are left; time is counted in checks, so that it stops while the process is stopped
    cause: str


@contextmanager
def bounded(seconds: float, what: str) -> Iterator[None]:
    """Ends the process with code 1 if its body takes longer; `what` names the call in the log."""
    _watch()
    error = sys.exc_info()[1]
    cause = "" if error is None else f". Before, the process was to end because of {error!r}"
    call = _Call(seconds, what, math.ceil(seconds / _CHECK_S) + 1, cause)
    _running.add(call)
    try:
        yield
    finally:
        _running.discard(call)


@cache
def _watch() -> None:
    threading.Thread(target=_end_late, name="bounded-calls", daemon=True).start()


def _end_late() -> None:
    pause = threading.Event()
    while not pause.wait(_CHECK_S):
        for call in list(_running):
            call.checks -= 1
            if not call.checks:
                _log.critical(
                    "%s has not returned for %.0f s: the client hangs, and this process ends. Nothing is lost: start "
                    "it again, if its supervisor does not%s",
                    *(call.what, call.seconds, call.cause),
                )
                logging.shutdown()
                os._exit(1)

"""Log lines that repeat, while a broker is away for instance: one of each kind a minute, with how many were left out.

Every module of ours, and every client of librdkafka, gets its logger here, so the limit holds in any process that
runs them: ackers, components, Spark drivers, commands, and a user's own. At DEBUG all lines are logged.
"""

import logging
import re
import threading
import time
import weakref
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from traceback import walk_tb
from typing import Final

SECONDS: Final = 60.0
"""The time between two lines of a kind."""
EACH: Final = {"logged_each_time": True}
"""The `extra` of a line that is never left out: it reports a loss, or counts by itself."""
MOST_KINDS: Final = 50
"""Lines of one call in that time, however they differ."""
_MOST_CALLS: Final = 1_000
_GETPID_SECONDS: Final = 10.0
# Not what belongs to an address, such as b-1, 10.0.0.7 or :9092; of a client, its number.
_NUMBERS: Final = re.compile(r"(?<![\w.:/#-])\d+(?:\.\d+)?(?!\d|\.\d|:\d)|(?<=#producer-)\d+|(?<=#consumer-)\d+")
_SUPPRESSED: Final = re.compile(r", \d+ identical error\(s\) suppressed")  # what librdkafka itself has left out

_filters: Final["weakref.WeakSet[RepeatedLines]"] = weakref.WeakSet()


@dataclass(frozen=True, slots=True)
class _Kind:
    since: float  # the time of the last line that passed, or of the first one
    next_at: float  # the time from which a line passes again
    left_out: int = 0


class RepeatedLines(logging.Filter):
    """Passes the first of lines that are alike, and then one a minute, with how many it left out.

    Alike are lines of one call that differ only in numbers, such as offsets and times; and exceptions of one type that
    were raised at one line of code. Lines below `least`, and
    the critical one that ends a process, always pass.
    """

    def __init__(self, least: int = logging.WARNING, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._least = least
        self._clock = clock
        self._calls: dict[str, dict[Hashable, _Kind]] = {}  # by the text of the call
        # Re-entrant, because a signal handler may log.
        self._lock = threading.RLock()
        _filters.add(self)

    def filter(self, record: logging.LogRecord) -> bool:
        if not self._least <= record.levelno < logging.CRITICAL or hasattr(record, *EACH):
            return True
        if logging.getLogger(record.name).isEnabledFor(logging.DEBUG):
            return True
        line, now = record.getMessage(), self._clock()
        with self._lock:
            kinds = self._kinds_of(str(record.msg) if record.args else _kind_of(line))
            kind = _raised_at(record) or _kind_of(line)
            if kind not in kinds and len(kinds) >= MOST_KINDS:
                self._drop_past(kinds, now)
                kind = kind if len(kinds) < MOST_KINDS else None
            # A coordinator that has just started refuses an idempotent producer its id: worth a line after a while.
            waits = line.startswith("GETPID") and line.endswith("retrying")
            found = kinds.get(kind) or _Kind(now, now + _GETPID_SECONDS if waits else now)
            if now < found.next_at:
                kinds[kind] = replace(found, left_out=found.left_out + 1)
                return False
            kinds[kind] = _Kind(now, now + SECONDS)
        if found.left_out:
            more = f"{found.left_out:,} more lines like it in the last {now - found.since:.0f} s"
            record.msg, record.args = f"{line} ({more})", ()
        return True

    def forget(self) -> None:
        self._calls.clear()

    def _kinds_of(self, call: str) -> dict[Hashable, _Kind]:
        if call not in self._calls and len(self._calls) >= _MOST_CALLS:
            self._calls.clear()
        return self._calls.setdefault(call, {})

    def _drop_past(self, kinds: dict[Hashable, _Kind], now: float) -> None:
        for kind in [each for each, found in kinds.items() if now >= found.next_at]:
            del kinds[kind]


def get_logger(name: str) -> logging.Logger:
    """A logger whose warnings and errors are limited to one of each kind a minute."""
    return _limited(name, logging.WARNING)


def client_logger(package: str) -> logging.Logger:
    """The logger that a package gives to its clients: `PACKAGE.client`, limited at every level."""
    return _limited(f"{package}.client", logging.NOTSET)


def forget() -> None:
    """Lets the next line of each kind pass, as in a process that has just started."""
    for each in list(_filters):
        each.forget()


def _limited(name: str, least: int) -> logging.Logger:
    logger = logging.getLogger(name)
    if not any(isinstance(each, RepeatedLines) for each in logger.filters):
        logger.addFilter(RepeatedLines(least))
    return logger


def _kind_of(line: str) -> str:
    return _NUMBERS.sub("", _SUPPRESSED.sub("", line))


def _raised_at(record: logging.LogRecord) -> Hashable | None:
    """The type of an exception, and the line that raised it; None where none was raised, but made and reported."""
    type_, _, traceback = record.exc_info or (None, None, None)
    frames = [(frame.f_code, line) for frame, line in walk_tb(traceback)]
    return (type_, frames[-1]) if frames else None

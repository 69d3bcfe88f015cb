"""The log lines of librdkafka's clients, which repeat one many times a second while a broker is away."""

import logging
import re
import time
from collections.abc import Callable
from typing import Final

_SECONDS: Final = 10.0
_MOST_KINDS: Final = 1_000
_NUMBERS: Final = re.compile(r"(?<![\w.:/#-])\d+")


class RepeatedLines(logging.Filter):
    """Passes the first of lines that are alike, and then one every ten seconds, with how many it left out.

    Alike are those of one client about one broker that differ in other numbers, such as times. That an idempotent
    producer asks again for its id is worth a line after ten seconds: a coordinator that has just started refuses it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._kinds: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        line = record.getMessage()
        kind, now = _NUMBERS.sub("", line), self._clock()
        first = now if line.startswith("GETPID") and line.endswith("retrying") else now - _SECONDS
        passed_at, left_out = self._kinds.setdefault(kind, (first, 0))
        if now - passed_at < _SECONDS:
            self._kinds[kind] = (passed_at, left_out + 1)
            return False
        if len(self._kinds) >= _MOST_KINDS:
            self._kinds.clear()
        self._kinds[kind] = (now, 0)
        if left_out:
            record.msg, record.args = (
                f"{line} ({left_out:,} more lines like it in the last {now - passed_at:.0f} s)",
                (),
            )
        return True


def client_logger(package: str) -> logging.Logger:
    """The logger that a package gives to its clients: `PACKAGE.client`."""
    logger = logging.getLogger(f"{package}.client")
    if not any(isinstance(each, RepeatedLines) for each in logger.filters):
        logger.addFilter(RepeatedLines())
    return logger

"""Exceptions that are raised again and again: which of them are logged, and which with their traceback."""

import logging
from collections.abc import Hashable
from dataclasses import dataclass
from traceback import walk_tb
from types import TracebackType
from typing import Any, Final

from spout_sdk.records import Clock

TRACEBACK_SECONDS: Final = 60.0  # between two tracebacks of one kind
LINE_SECONDS: Final = 10.0  # between two lines about one kind


@dataclass(slots=True)
class _Kind:
    line_at: float
    traceback_at: float
    left_out: int = 0


class Repetition:
    """Of one kind of exceptions, logs one line in ten seconds, and one traceback in a minute.

    Alike are exceptions of one type, raised at one line of code, or about one thing; the latter have no traceback.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kinds: dict[Hashable, _Kind] = {}

    def log(
        self,
        logger: logging.Logger,
        level: int,
        error: BaseException,
        text: str,
        *arguments: Any,
        about: Hashable = None,
    ) -> None:
        """Logs an exception, with how many of its kind were left out before; those that are left out at DEBUG."""
        now = self._clock()
        what = (type(error), _raised_at(error.__traceback__) if about is None else about)
        kind = self._kinds.setdefault(what, _Kind(now, now))
        traceback = error if about is None else None
        if now < kind.line_at:
            kind.left_out += 1
            logger.debug(text, *arguments, exc_info=traceback)
            return
        more = f"; {kind.left_out:,} more of this kind since the last line" if kind.left_out else ""
        kind.left_out, kind.line_at = 0, now + LINE_SECONDS
        if now < kind.traceback_at:
            traceback = None
        else:
            kind.traceback_at = now + TRACEBACK_SECONDS
        logger.log(level, f"{text}%s", *arguments, more, exc_info=traceback)


def _raised_at(traceback: TracebackType | None) -> Hashable:
    frames = [(frame.f_code, line) for frame, line in walk_tb(traceback)]
    return frames[-1] if frames else None

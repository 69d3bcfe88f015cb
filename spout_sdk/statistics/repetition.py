"""Exceptions that are raised again and again: which of them are logged, and which with their traceback."""

from collections.abc import Hashable
from dataclasses import dataclass
from types import TracebackType
from typing import Final

from spout_sdk.records import Clock

TRACEBACK_SECONDS: Final = 60.0
"""Between two tracebacks of one kind."""
LINE_SECONDS: Final = 10.0
"""Between two lines about one kind."""


@dataclass(slots=True)
class _Kind:
    line_at: float
    traceback_at: float
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    """An exception that is to be logged."""

    left_out: int
    """How many of its kind were not logged since the last line."""
    traceback: BaseException | None
    """The exception if its traceback is to be logged, else None: what `exc_info` takes."""

    @property
    def more(self) -> str:
        """The end of the line: how many were left out, if any were."""
        return f"; {self.left_out:,} more of this kind since the last line" if self.left_out else ""


class Repetition:
    """Of one kind of exceptions, lets one line pass in ten seconds, and one traceback in a minute.

    Alike are exceptions of one type, raised at one line of code, or about one thing.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kinds: dict[Hashable, _Kind] = {}

    def line(self, error: BaseException, about: Hashable = None) -> Line | None:
        """What is to be logged of this exception; None if nothing is."""
        now = self._clock()
        what = (type(error), _raised_at(error.__traceback__) if about is None else about)
        kind = self._kinds.get(what)
        if kind is None:
            kind = self._kinds[what] = _Kind(now, now)
        elif now < kind.line_at:
            kind.left_out += 1
            return None
        line = Line(kind.left_out, error if now >= kind.traceback_at else None)
        kind.left_out, kind.line_at = 0, now + LINE_SECONDS
        if line.traceback is not None:
            kind.traceback_at = now + TRACEBACK_SECONDS
        return line


def _raised_at(traceback: TracebackType | None) -> Hashable:
    if traceback is None:
        return None
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback.tb_frame.f_code, traceback.tb_lineno

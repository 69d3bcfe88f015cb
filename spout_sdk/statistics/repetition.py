"""Exceptions that are raised again and again: which of them are logged, and which with their traceback."""

from collections.abc import Hashable
from dataclasses import dataclass
from types import TracebackType
from typing import Final, NamedTuple

from spout_sdk.records import Clock

TRACEBACK_SECONDS: Final = 60.0  # between two tracebacks of one kind
LINE_SECONDS: Final = 10.0  # between two lines about one kind


@dataclass(slots=True)
class _Kind:
    line_at: float
    traceback_at: float
    left_out: int = 0


class Line(NamedTuple):
    """An exception that is to be logged: the end of its line, and what `exc_info` takes."""

    more: str
    traceback: BaseException | None


class Repetition:
    """Of one kind of exceptions, lets one line pass in ten seconds, and one traceback in a minute.

    Alike are exceptions of one type, raised at one line of code, or about one thing.
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
        more = f"; {kind.left_out:,} more of this kind since the last line" if kind.left_out else ""
        kind.left_out, kind.line_at = 0, now + LINE_SECONDS
        if now < kind.traceback_at:
            return Line(more, None)
        kind.traceback_at = now + TRACEBACK_SECONDS
        return Line(more, error)


def _raised_at(traceback: TracebackType | None) -> Hashable:
    if traceback is None:
        return None
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback.tb_frame.f_code, traceback.tb_lineno

"""When a task whose input is idle flushes what it has buffered: Nagle's algorithm, with a limit.

An idempotent producer has five requests in flight for a partition; what is flushed meanwhile queues behind them, record
by record. So an idle task flushes at once if all it has sent is delivered, and otherwise waits for that, for 5 ms at
most. See RFC 896.
"""

from collections.abc import Callable
from typing import Final

from spout_sdk.emitting.task import LINGER_SECONDS
from spout_sdk.records import Clock

_BUSY: Final = 32
_SLICE_SECONDS: Final = 0.001


class FlushTiming:
    """How long a loop waits for more input before it flushes; `in_flight` returns how many records are undelivered."""

    def __init__(self, clock: Clock, in_flight: Callable[[], int]) -> None:
        self._clock = clock
        self._in_flight = in_flight
        self._flushed_at = 0.0
        self._count = 0

    def flushed(self, count: int) -> None:
        """Records a flush, after so many tuples of the loop."""
        self._flushed_at, self._count = self._clock(), count

    def wait_seconds(self, count: int) -> float:
        """For how many seconds to wait for input before asking again; 0 if the loop should flush now.

        After 32 tuples a flush waits for 5 ms in any case: where processes wait for cores, an input is idle each time
        its process has run, and more comes soon.

        Args:
            count: tuples that the loop has handled so far.
        """
        handled = count - self._count
        rest = self._flushed_at + LINGER_SECONDS - self._clock()
        if not handled or rest <= 0:
            return 0.0
        if handled >= _BUSY:
            return rest
        return min(rest, _SLICE_SECONDS) if self._in_flight() else 0.0

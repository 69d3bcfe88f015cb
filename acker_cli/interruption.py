"""Ctrl-C and SIGTERM: the first one unwinds the command, so that everything it started is stopped in order."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PATIENCE: Final = 3
SLOW_S: Final = 0.8
"""After how many seconds it is said that what was interrupted has not ended yet."""


class Interrupted(BaseException):
    """A signal asked the command to end.

    Not an `Exception`, so that nothing on the way swallows it.

    Attributes:
        number: of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number

    @property
    def exit_code(self) -> int:
        """What a shell expects: 130 for Ctrl-C, 143 for SIGTERM."""
        return 128 + self.number


@contextmanager
def interruptible(*, is_service: bool = False) -> Iterator[None]:
    """Turns the first signal into `Interrupted`.

    Later ones do not disturb the cleaning up that the first one began; the third ends the process at once, and its
    children notice that by themselves.

    Args:
        is_service: whether the command runs until it is told to stop, so that SIGTERM ends it as intended: what is
            inside is unwound, and the command goes on after it.
    """
    seen = 0
    slow = _slow_end()

    def on_signal(number: int, _frame: FrameType | None) -> None:
        nonlocal seen
        seen += 1
        if seen == 1:
            slow.start()
            raise Interrupted(number)
        if seen >= _PATIENCE:
            os._exit(128 + number)
        _say(b"acker: stopping; once more to end at once\n")

    # Whoever started us with nohup wants the hang-up ignored.
    wanted = [number for number in _SIGNALS if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, on_signal) for number in wanted}
    try:
        yield
    except Interrupted as interrupted:
        if not (is_service and interrupted.number == signal.SIGTERM):
            raise
    finally:
        slow.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[list[int]]:
    """Calls `stop` at each SIGINT and SIGTERM, for what stops between two records, never amid one.

    The third one ends the process at once.

    Yields:
        The signals that came so far, by their numbers.
    """
    received: list[int] = []
    slow = _slow_end()

    def on_signal(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        if len(received) == 1:
            slow.start()
        if len(received) >= _PATIENCE:
            os._exit(128 + number)
        stop()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        slow.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)


def _slow_end() -> threading.Timer:
    """Says, once it was started and unless it is cancelled in time, what is waited for."""
    said = b"acker: stopping; what is under way is finished and committed first. Ctrl-C twice more ends it at once\n"
    timer = threading.Timer(SLOW_S, _say, [said])
    timer.daemon = True
    return timer


def _say(line: bytes) -> None:
    os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, line)

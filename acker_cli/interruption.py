"""Ctrl-C and SIGTERM: the first one unwinds the command, so that everything it started is stopped in order."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Final

_PATIENCE: Final = 3
SLOW_SECONDS: Final = 0.8
"""Seconds after which a line says that what was interrupted has not ended yet."""


class Interrupted(BaseException):
    """A signal asked the command to end; not an `Exception`, so that no handler of errors catches it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number

    @property
    def exit_code(self) -> int:
        """130 for Ctrl-C, 143 for SIGTERM."""
        return 128 + self.number


@contextmanager
def interruptible(*, is_service: bool = False) -> Iterator[None]:
    """Turns the first signal into `Interrupted`, and SIGTERM of a service into the end of the block.

    A second one does not disturb the clean-up; the third ends the process at once, and its children end with it.
    """

    def on_signal(received: Sequence[int]) -> None:
        if len(received) == 1:
            raise Interrupted(received[0])
        _print(b"acker: stopping; once more to end at once\n")

    # Under nohup, SIGHUP stays ignored.
    hang_up = () if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else (signal.SIGHUP,)
    try:
        with _handled((signal.SIGINT, signal.SIGTERM, *hang_up), on_signal):
            yield
    except Interrupted as interrupted:
        if not (is_service and interrupted.number == signal.SIGTERM):
            raise


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[list[int]]:
    """Calls `stop` at each SIGINT and SIGTERM, for what stops between two records; the third ends the process at once.

    Yields the numbers of the signals so far.
    """
    with _handled((signal.SIGINT, signal.SIGTERM), lambda _received: stop()) as received:
        yield received


@contextmanager
def _handled(numbers: Sequence[int], handle: Callable[[Sequence[int]], None]) -> Iterator[list[int]]:
    received: list[int] = []
    message = b"acker: stopping; what is under way is finished and committed first. Ctrl-C twice more ends it at once\n"
    slow = threading.Timer(SLOW_SECONDS, _print, [message])
    slow.daemon = True

    def on_signal(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        if len(received) == 1:
            slow.start()
        if len(received) >= _PATIENCE:
            os._exit(128 + number)
        handle(received)

    before = {number: signal.signal(number, on_signal) for number in numbers}
    try:
        yield received
    finally:
        slow.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)


def _print(line: bytes) -> None:
    os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, line)

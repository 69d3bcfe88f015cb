"""Waiting for the answers of an admin client, so that Ctrl-C interrupts it."""

from concurrent.futures import Future, wait
from typing import Final, TypeVar

_STEP_SECONDS: Final = 0.2

T = TypeVar("T")


def answer_of(future: Future[T]) -> T:
    """The result of a request; raises its exception.

    It waits in steps: a signal whose handler has run just before a wait begins does not interrupt that wait.
    """
    while not wait((future,), _STEP_SECONDS).done:
        pass
    return future.result()

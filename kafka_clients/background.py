"""Calls that wait for an answer, for a loop that must not wait."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from typing import Any, Final, TypeVar

_STEP_SECONDS: Final = 0.2
T = TypeVar("T")


class Background:
    """Makes calls in a thread of their own, which ends with the process, also while it waits.

    It is made by `new_client`, so that calls to a Kafka in memory are made at once.
    """

    def __init__(self, _settings: Mapping[str, Any]) -> None:
        pass

    def begin(self, call: Callable[[], T], name: str) -> "Future[T]":
        """Begins a call; the future has what it returns, or raises. The thread is called `name`."""
        return in_thread(call, name)


def in_thread(call: Callable[[], T], name: str) -> "Future[T]":
    outcome: Future[T] = Future()
    threading.Thread(target=settle, args=(outcome, call), name=name, daemon=True).start()
    return outcome


def settle(outcome: "Future[T]", call: Callable[[], T]) -> None:
    """Makes a call, and gives what it returns or raises to a future."""
    try:
        result = call()
    except BaseException as error:  # noqa: BLE001 - raised where the future is read
        outcome.set_exception(error)
    else:
        outcome.set_result(result)


def answer_of(future: "Future[T]") -> T:
    """The result of a request; raises its exception; Ctrl-C interrupts it.

    It waits in steps: a signal whose handler has run just before a wait begins does not interrupt that wait.
    """
    while not wait((future,), _STEP_SECONDS).done:
        pass
    return future.result()

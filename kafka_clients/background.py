"""Calls that wait for an answer, for a loop that must not wait."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class Background:
    """Makes calls in a thread of their own, which ends with the process, also while it waits.

    It is made by `new_client`, so that calls to a Kafka in memory are made at once.
    """

    def __init__(self, _settings: Mapping[str, Any]) -> None:
        pass

    def begin(self, call: Callable[[], T], name: str) -> "Future[T]":
        """Begins a call; the future has what it returns, or raises. The thread is called `name`."""
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

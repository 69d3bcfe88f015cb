"""Blocking calls in threads, for a loop that must not wait for them when it ends."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

T = TypeVar("T")

_AT_ONCE: Final = 32


class ClosingError(Exception):
    """The loop is about to end, so the answer is not awaited."""


class Questions:
    """Calls functions in threads, until it is closed.

    Not in the loop's own threads: its end, and that of the process, would wait for a broker that does not answer.
    """

    def __init__(self) -> None:
        self._closing = asyncio.Event()
        self._room = asyncio.Semaphore(_AT_ONCE)

    @property
    def is_closed(self) -> bool:
        return self._closing.is_set()

    def close(self) -> None:
        """Leaves all questions unanswered; called in the loop."""
        self._closing.set()

    async def pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), seconds)

    async def ask(self, question: Callable[[], T]) -> T:
        """Calls this in a thread; raises what it raises, or `ClosingError` if closed before there is an answer."""
        async with self._room:
            future: Future[T] = Future()
            # From now on it cannot be cancelled, only abandoned.
            future.set_running_or_notify_cancel()
            threading.Thread(target=_answer, args=(question, future), name="dashboard question", daemon=True).start()
            answer, closing = asyncio.wrap_future(future), asyncio.create_task(self._closing.wait())
            try:
                awaited: set[asyncio.Future[Any]] = {answer, closing}
                await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
                if answer.done():
                    return answer.result()
                raise ClosingError("the dashboard is stopping; start it again")
            finally:
                answer.cancel()
                closing.cancel()


def _answer(question: Callable[[], T], future: "Future[T]") -> None:
    try:
        future.set_result(question())
    except BaseException as error:  # noqa: BLE001 - it is raised where it was asked
        future.set_exception(error)

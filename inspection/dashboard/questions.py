"""Questions that block, asked in threads by a loop that must not wait for them longer than it lives."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, TypeVar

T = TypeVar("T")

_AT_ONCE: Final = 32


class ClosingError(Exception):
    """The loop is about to end, so the answer is not awaited."""


class Questions:
    """Asks, until it is closed.

    Not the loop's own threads: its end, and that of the process, would wait for a broker that does not answer.
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
        asking = asyncio.create_task(self._asked(question))
        closing = asyncio.create_task(self._closing.wait())
        try:
            await asyncio.wait({asking, closing}, return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                return asking.result()
            raise ClosingError("the dashboard is stopping; start it again")
        finally:
            asking.cancel()
            closing.cancel()

    async def _asked(self, question: Callable[[], T]) -> T:
        async with self._room:
            answer: Future[T] = Future()
            # From now on it cannot be cancelled, only abandoned.
            answer.set_running_or_notify_cancel()

            def work() -> None:
                try:
                    answer.set_result(question())
                except BaseException as error:  # noqa: BLE001 - it is raised where it was asked
                    answer.set_exception(error)

            threading.Thread(target=work, name="dashboard question", daemon=True).start()
            return await asyncio.wrap_future(answer)

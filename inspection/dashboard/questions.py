"""Questions that block, asked in threads by a loop that must not wait for them longer than it lives."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

_AT_ONCE: Final = 32


class ClosingError(Exception):
    """The loop is about to end, so nobody waits for the answer."""


class Questions:
    """Asks, until it is closed.

    Not the loop's own threads: its end, and that of the process, would wait for a broker that does not answer.
    """

    def __init__(self) -> None:
        self._closing = asyncio.Event()
        self._room = asyncio.Semaphore(_AT_ONCE)

    @property
    def is_closed(self) -> bool:
        """Whether nothing more is asked."""
        return self._closing.is_set()

    def close(self) -> None:
        """Leaves all questions unanswered; called in the loop."""
        self._closing.set()

    async def pause(self, seconds: float) -> None:
        """Waits so long, or until it is closed."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), seconds)

    async def ask(self, question: Callable[[], T]) -> T:
        """Calls this in a thread."""
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
            loop = asyncio.get_running_loop()
            answer: asyncio.Future[T] = loop.create_future()

            def settle(give: Callable[[], None]) -> None:
                # Nobody may wait any more, or the loop be gone.
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(lambda: None if answer.done() else give())

            def work() -> None:
                try:
                    found = question()
                except BaseException as error:  # noqa: BLE001 - it is raised where it was asked
                    raised = error
                    settle(lambda: answer.set_exception(raised))
                else:
                    settle(lambda: answer.set_result(found))

            threading.Thread(target=work, name="dashboard question", daemon=True).start()
            return await answer

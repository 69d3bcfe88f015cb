"""An input of an `AsyncBolt` whose coroutine was started, and the collector for it."""

import asyncio
from collections import deque
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from spout_sdk.api.tuples import Tuple
from spout_sdk.operators.async_effects import Emitted
from tuple_tree.streams import DEFAULT_STREAM

Key = tuple[Any, ...] | None
"""Values of the fields by which a bolt is ordered; None if it is not."""


class RunningInput:
    """An input whose coroutine was started, with its emits and its outcome.

    Attributes:
        input: the tuple.
        key: its values of the fields by which the bolt is ordered.
        since: when it was started, by the clock of the task.
        emits: values and stream of each emit.
        answers: the value of each answer.
        error: the exception that it ended with; None if it returned.
        is_done: whether it has ended.
        is_cancelled: whether its time limit has passed.
        is_overdue: whether it was still running then.
        is_settled: whether its input has an outcome.
        coroutine: executes it; None until the event loop begins it.
    """

    __slots__ = (
        *(
            "_resets",
            "answers",
            "coroutine",
            "emits",
            "error",
            "input",
            "is_cancelled",
            "is_done",
            "is_overdue",
            "is_settled",
            "key",
            "since",
        ),
    )

    def __init__(self, input_: Tuple, key: Key, since: float, resets: deque[Tuple]) -> None:
        self.input, self.key, self.since = input_, key, since
        self.emits: list[Emitted] = []
        self.answers: list[Any] = []
        self.error: BaseException | None = None
        self.is_done = self.is_cancelled = self.is_overdue = self.is_settled = False
        self.coroutine: asyncio.Future[None] | None = None
        self._resets = resets

    def emit(self, values: Sequence[Any], stream: str) -> None:
        self._check_open()
        # A copy, because the values may be changed before they are sent.
        self.emits.append((deepcopy(values), stream))

    def answer(self, value: Any) -> None:
        self._check_open()
        self.answers.append(deepcopy(value))

    def _check_open(self) -> None:
        if self.is_settled and self.is_overdue:
            raise RuntimeError("execute_async() exceeded its time_limit, and its input has failed: nothing is sent")
        if self.is_done:
            raise RuntimeError(
                "execute_async() has ended, and its input is acked: await the code that emits before it returns"
            )

    def reset_timeout(self) -> None:
        self._resets.append(self.input)


class AsyncCollector:
    """The collector of an `AsyncBolt`: emits are anchored to the input, and sent when its coroutine has ended."""

    __slots__ = ("_running",)

    def __init__(self, running: RunningInput) -> None:
        self._running = running

    @property
    def input(self) -> Tuple:
        """The tuple that is executed."""
        return self._running.input

    def emit(self, values: Sequence[Any], *, stream: str = DEFAULT_STREAM) -> None:
        """Sends a tuple to every subscriber of a stream, if `execute_async` ends without an exception.

        Values that do not fit the stream fail the input then, and nothing is sent for it.

        Raises:
            RuntimeError: if `execute_async` has ended.
        """
        self._running.emit(values, stream)

    def answer(self, value: Any) -> None:
        """Answers the message that the input comes from, if `execute_async` ends without an exception.

        The input is acked when the answer is delivered. A value that is not JSON fails the input,
        and nothing is sent for it.

        Args:
            value: anything that `json.dumps` takes.

        Raises:
            RuntimeError: if `execute_async` has ended.
        """
        self._running.answer(value)

    def reset_timeout(self) -> None:
        """Restarts the clock of the input's trees now. The task does so regularly while the input is open."""
        self._running.reset_timeout()

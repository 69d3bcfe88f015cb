"""Calls an `AsyncBolt`: the event loop of a task, its running inputs, and what follows when they end.

The coroutines run in an event loop in a thread of its own and touch nothing of the task: when one has ended, its emits
go through a thread-safe queue to the task's thread, which emits and acks.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from copy import deepcopy
from queue import Empty, SimpleQueue
from typing import Any, Final

from kafka_clients.repeated_lines import get_logger
from spout_sdk.api.tuples import Tuple
from spout_sdk.arguments import check_count
from spout_sdk.bolts.adapters import BoltAdapter, adapter_of
from spout_sdk.bolts.async_bolt import AsyncBolt, AsyncCollector
from spout_sdk.emitting.task import Task
from spout_sdk.errors import FailTupleError

logger = get_logger("spout_sdk.bolt")

_CLEANUP_SECONDS: Final = 5.0
_CANCEL_SECONDS: Final = 1.0  # for what a cancelled coroutine does about it
_LOOK_SECONDS: Final = 0.005


class RunningInput:
    """An input whose coroutine was started: what it has emitted, and how it has ended.

    Attributes:
        input: the tuple.
        emits: values and stream of each emit.
        error: by which it has ended; None if it has returned.
        is_done: whether it has ended.
    """

    __slots__ = ("_resets", "emits", "error", "input", "is_done")

    def __init__(self, input_: Tuple, resets: deque[Tuple]) -> None:
        self.input = input_
        self.emits: list[tuple[Sequence[Any], str]] = []
        self.error: Exception | None = None
        self.is_done = False
        self._resets = resets

    def emit(self, values: Sequence[Any], stream: str) -> None:
        if self.is_done:
            raise RuntimeError("execute_async() has ended, and its input is acked: await what emits before it returns")
        # A copy, as the values may be changed before they are sent.
        self.emits.append((deepcopy(values), stream))

    def reset_timeout(self) -> None:
        self._resets.append(self.input)


@adapter_of.register(AsyncBolt)
class AsyncAdapter(BoltAdapter):
    """Runs the coroutines of an `AsyncBolt`, and settles their inputs in the task's thread, as they end.

    Tick tuples only call it: inputs have ended since.
    """

    may_be_busy = True
    emits_with_ack = True

    def __init__(self, bolt: AsyncBolt, task: Task, *rest: Any) -> None:
        super().__init__(bolt, task, *rest)
        context = task.context
        # Without Kafka time is simulated, and does not wait for threads.
        self._is_simulated = not context.kafka
        self._running = 0
        self._ended: SimpleQueue[RunningInput] = SimpleQueue()
        self._resets: deque[Tuple] = deque()
        self._coroutines: set[asyncio.Task[None]] = set()
        self._is_cancelled = False
        self._loop: asyncio.AbstractEventLoop | None = None  # from `prepare` to `cleanup`

    def prepare(self) -> None:
        """Starts the event loop."""
        bolt, context = self._bolt, self._task.context
        check_count("concurrency of an AsyncBolt", bolt.concurrency)
        self._loop = loop = asyncio.new_event_loop()
        name = f"{context.component}/{context.task} event loop"
        self._thread = threading.Thread(target=loop.run_forever, name=name, daemon=True)
        self._thread.start()
        try:
            self._await(bolt.prepare_async(context))
        except BaseException:
            self._end_loop()
            raise

    def execute(self, tuples: Sequence[Tuple]) -> None:
        """Starts the coroutines of tuples, and settles the inputs whose coroutines have ended."""
        for tuple_ in tuples:
            if not tuple_.is_tick:
                self._start(tuple_)
        while self._resets:
            self._collector.reset_timeout(self._resets.popleft())
        self._settle_ended()

    @property
    def tick_interval(self) -> float:
        return _LOOK_SECONDS

    @property
    def is_busy(self) -> bool:
        return bool(self._running >= self._bolt.concurrency)

    @property
    def running_inputs(self) -> int:
        return self._running

    def wait(self, seconds: float) -> None:
        if self._running:
            try:
                self._finish(self._ended.get(timeout=seconds))
            except Empty:
                return
            self._settle_ended()

    def cleanup(self) -> None:
        """Cancels what is still being executed, and ends the event loop."""
        if self._loop is None:
            return
        try:
            self._settle_ended()
        finally:
            # Nothing is settled from here on: what a cancelled coroutine does still is no outcome.
            try:
                self._await(self._cancel(), 2 * _CANCEL_SECONDS)
                self._await(self._bolt.cleanup_async(), _CLEANUP_SECONDS)
            finally:
                self._end_loop()

    def _start(self, tuple_: Tuple) -> None:
        self._running += 1
        started = RunningInput(tuple_, self._resets)
        self._call(self._begin, started)
        if self._is_simulated:
            self._finish(self._ended.get())

    # In the event loop

    def _begin(self, started: RunningInput) -> None:
        coroutine = asyncio.ensure_future(self._execute(started))
        self._coroutines.add(coroutine)
        coroutine.add_done_callback(self._coroutines.discard)

    async def _execute(self, started: RunningInput) -> None:
        try:
            await self._bolt.execute_async(started.input, AsyncCollector(started))
        except Exception as error:  # noqa: BLE001 - any exception of a user's bolt
            started.error = error
        except BaseException as error:
            if self._is_cancelled:
                raise  # it has no outcome: the input stays open, and is read again
            started.error = FailTupleError(f"execute_async() ended with {type(error).__name__}")
        started.is_done = True
        self._ended.put(started)

    async def _cancel(self) -> None:
        self._is_cancelled = True
        for coroutine in self._coroutines:
            coroutine.cancel()
        if self._coroutines:
            await asyncio.wait(self._coroutines, timeout=_CANCEL_SECONDS)

    # In the task's thread

    def _settle_ended(self) -> None:
        while not self._ended.empty():
            self._finish(self._ended.get())

    def _finish(self, ended: RunningInput) -> None:
        self._running -= 1
        self._settle(ended)

    def _settle(self, ended: RunningInput) -> None:
        error, input_ = ended.error, ended.input
        if error is None:
            try:
                for values, stream in ended.emits:
                    self._collector.emit(values, anchors=input_, stream=stream)
            except Exception as refused:  # noqa: BLE001 - what does not fit
                error = refused
        if error is None:
            self._failures.in_a_row = 0
            self._collector.ack(input_)
        else:
            self._failures.handle((input_,), error)

    def _call(self, function: Callable[..., object], *arguments: Any) -> None:
        """Calls a function in the event loop, which runs from `prepare` to `cleanup`."""
        self._loop.call_soon_threadsafe(function, *arguments)  # type: ignore[union-attr]

    def _await(self, coroutine: Coroutine[Any, Any, None], seconds: float | None = None) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(seconds)  # type: ignore[arg-type]

    def _end_loop(self) -> None:
        self._call(self._loop.stop)  # type: ignore[union-attr]
        self._thread.join(_CANCEL_SECONDS)
        loop, self._loop = self._loop, None
        if self._thread.is_alive():
            logger.warning("%s is blocked: what blocks belongs into asyncio.to_thread()", self._thread.name)
        else:
            loop.close()  # type: ignore[union-attr]

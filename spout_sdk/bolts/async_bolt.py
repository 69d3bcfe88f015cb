"""`AsyncBolt`: many inputs at a time, for work that waits for others.

Its coroutines run in an event loop in a thread of its own and touch nothing of the task: when one has ended, its emits
go through a thread-safe queue to the task's thread, which emits and acks.
"""

import asyncio
import threading
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import takewhile
from queue import Empty, SimpleQueue
from typing import Any, Final

from kafka_clients.repeated_lines import get_logger
from spout_sdk.api.context import TaskContext
from spout_sdk.api.tuples import Tuple
from spout_sdk.arguments import check_count
from spout_sdk.bolts.collectors import OutputCollector
from spout_sdk.bolts.held_failures import reset_seconds
from spout_sdk.bolts.holding_bolt import HoldingBolt
from spout_sdk.errors import FailTupleError
from tuple_tree.streams import DEFAULT_STREAM

logger = get_logger("spout_sdk.bolt")

_CLEANUP_SECONDS: Final = 5.0
_CANCEL_SECONDS: Final = 1.0  # for what a cancelled coroutine does about it
_LOOK_SECONDS: Final = 0.005


@dataclass(slots=True, eq=False, repr=False)
class AsyncCollector:
    """The collector of an `AsyncBolt`: emits are anchored to the input, and sent when its coroutine has ended.

    Attributes:
        input: the tuple.
    """

    _bolt: "AsyncBolt"
    input: Tuple
    emits: list[tuple[Sequence[Any], str]] = field(default_factory=list)
    error: Exception | None = None
    is_done: bool = False

    def emit(self, values: Sequence[Any], *, stream: str = DEFAULT_STREAM) -> None:
        """Sends a tuple to every subscriber of a stream, if `execute_async` ends without an exception.

        Values that do not fit the stream fail the input then.

        Raises:
            RuntimeError: if `execute_async` has ended.
        """
        if self.is_done:
            raise RuntimeError("execute_async() has ended, and its input is acked: await what emits before it returns")
        # A copy, as the values may be changed before they are sent.
        self.emits.append((deepcopy(values), stream))

    def reset_timeout(self) -> None:
        """Restarts the clock of the input's trees: it is still being worked on."""
        self._bolt._resets.append(self.input)


class AsyncBolt(HoldingBolt):
    """A bolt that works on many inputs at a time, in coroutines: for requests to services and databases.

    Derive it and define `execute_async`. What it emits is anchored to its input, which is acked when it returns, and
    failed when it raises.

        class Geocode(AsyncBolt):
            concurrency = 50
            streams = (declare({"address": str, "lat": float, "lon": float}),)

            async def prepare_async(self, context: TaskContext) -> None:
                self.client = httpx.AsyncClient()

            async def execute_async(self, tuple_: Tuple, collector: AsyncCollector) -> None:
                place = (await self.client.get(URL, params={"q": tuple_["address"]})).json()
                collector.emit((tuple_["address"], place["lat"], place["lon"]))

    Inputs end in any order, and so do their outputs; with `exactly_once` what a record's inputs emit is sent in the
    order of the records, when all of them have ended. The clocks of their trees are restarted while they wait for that.

    Attributes:
        concurrency: how many inputs of a task are worked on at a time. In a simulated cluster it is one.
    """

    concurrency: int = 100
    tick_interval: float | None = _LOOK_SECONDS

    _may_be_busy = True
    _loop: asyncio.AbstractEventLoop | None = None
    _is_cancelled = False

    async def prepare_async(self, context: TaskContext) -> None:
        """Called once, in the event loop, before anything else."""

    @abstractmethod
    async def execute_async(self, tuple_: Tuple, collector: AsyncCollector) -> None:
        """Process a tuple. If it raises, the tuple is failed, unless the bolt was set with another `on_exception`.

        There is no time limit: use `asyncio.timeout`. Work that blocks belongs into `asyncio.to_thread`.
        """

    async def cleanup_async(self) -> None:
        """Called in the event loop at a clean stop, and when the task moves to another process.

        What is still being executed after 5 seconds is cancelled before, and read again.
        """

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        """Called by the SDK: starts the event loop."""
        check_count("concurrency of an AsyncBolt", self.concurrency)
        # Without Kafka time is simulated, and does not wait for threads.
        self._is_simulated = not context.kafka
        self._in_order = context.manifest.guarantee == "exactly_once"
        self._now = context.now
        self._reset_every = reset_seconds(context.manifest)
        self._reset_at = self._now() + self._reset_every
        self._collector = collector
        self._begun: deque[AsyncCollector] = deque()
        self._ended: SimpleQueue[AsyncCollector] = SimpleQueue()
        self._resets: deque[Tuple] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = loop = asyncio.new_event_loop()
        name = f"{context.component}/{context.task} event loop"
        self._thread = threading.Thread(target=loop.run_forever, name=name, daemon=True)
        self._thread.start()
        try:
            self._await(self.prepare_async(context))
        except BaseException:
            self._end_loop()
            raise

    def execute(self, tuple_: Tuple) -> None:
        """Called by the SDK: starts the coroutine of a tuple, and settles the inputs whose coroutines have ended."""
        if not tuple_.is_tick:
            self._running += 1
            work = AsyncCollector(self, tuple_)
            if self._in_order:
                self._begun.append(work)
            self._call(self._begin, work)
            if self._is_simulated:
                self._finish(self._ended.get())
        while self._resets:
            self._collector.reset_timeout(self._resets.popleft())
        if self._now() >= self._reset_at:
            self._reset_at = self._now() + self._reset_every
            for work in self._begun:
                if work.is_done:
                    self._collector.reset_timeout(work.input)
        self._settle_ended()

    @property
    def _is_busy(self) -> bool:
        return self._running >= self.concurrency

    def _wait(self, seconds: float) -> None:
        """Waits until an input has ended, `seconds` at most."""
        if self._running:
            try:
                self._finish(self._ended.get(timeout=seconds))
            except Empty:
                return
            self._settle_ended()

    def cleanup(self) -> None:
        """Called by the SDK: cancels what is still being executed, and ends the event loop."""
        if self._loop is None:
            return
        try:
            self._settle_ended()
        finally:
            # Nothing is settled from here on: what a cancelled coroutine does still is no outcome.
            try:
                self._await(self._cancel(), 2 * _CANCEL_SECONDS)
                self._await(self.cleanup_async(), _CLEANUP_SECONDS)
            finally:
                self._end_loop()

    def _settle_ended(self) -> None:
        while not self._ended.empty():
            self._finish(self._ended.get())
        self._settle_in_order()

    def _begin(self, work: AsyncCollector) -> None:
        task = asyncio.ensure_future(self._execute(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _execute(self, work: AsyncCollector) -> None:
        try:
            await self.execute_async(work.input, work)
        except Exception as error:  # noqa: BLE001 - any exception of a user's bolt
            work.error = error
        except BaseException as error:
            if self._is_cancelled:
                raise  # it has no outcome: the input stays open, and is read again
            work.error = FailTupleError(f"execute_async() ended with {type(error).__name__}")
        work.is_done = True
        self._ended.put(work)

    async def _cancel(self) -> None:
        self._is_cancelled = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CANCEL_SECONDS)

    def _finish(self, work: AsyncCollector) -> None:
        self._running -= 1
        if not self._in_order:
            self._settle(work)

    def _settle_in_order(self) -> None:
        """Settles whole records, in order: what lies behind may be read again, and must have had no effect."""
        while self._in_order and self._begun:
            pack = self._begun[0].input.pack
            if not self._collector._outcomes.is_open(pack.offset):
                self._begun.popleft()  # an input of its record did not end before its tree was too old
                continue
            ended = takewhile(lambda work: work.is_done and work.input.pack is pack, self._begun)  # noqa: B023
            if (inputs := sum(1 for _ in ended)) != pack.left:
                return
            for _ in range(inputs):
                self._settle(self._begun.popleft())

    def _settle(self, work: AsyncCollector) -> None:
        error, input_ = work.error, work.input
        if error is None:
            try:
                for values, stream in work.emits:
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

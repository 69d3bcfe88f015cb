"""Calls an `AsyncBolt`: runs the event loop of a task, and settles inputs whose coroutines have ended.

The event loop has a separate thread, and its coroutines do not touch the task: when one has ended, its emits go through
a thread-safe queue to the task's thread, which emits and acks.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final

from kafka_clients.repeated_lines import get_logger
from spout_sdk.api.tuples import Tuple
from spout_sdk.bolts.call_sizes import Stride
from spout_sdk.bolts.operator import Operator
from spout_sdk.emitting.task import Task
from spout_sdk.errors import TopologyError
from spout_sdk.operators.async_effects import AsyncEmitter
from spout_sdk.operators.async_settings import AsyncSettings
from spout_sdk.operators.running_input import AsyncCollector, Key, RunningInput

logger = get_logger("spout_sdk.bolt")

_CLEANUP_SECONDS: Final = 5.0
_CANCEL_SECONDS: Final = 1.0  # for a cancelled coroutine to end
_LOOK_SECONDS: Final = 0.005
_STUBBORN: Final = (
    "%s/%d: execute_async() for %s[%d] offset %d did not end within %g s after it was cancelled at its time_limit of "
    "%g s, and its input fails: it suppresses asyncio.CancelledError, or a call in it blocks the event loop and "
    "belongs in asyncio.to_thread()."
)


class AsyncOperator(Operator):
    """Runs the coroutines of an `AsyncBolt`, and settles their inputs in the task's thread, as they end.

    A tick settles inputs that have ended, and cancels those over their time limit.

    It takes an input only if it can begin it, or has room to let it wait for an earlier input with the same key: the
    rest of a record stays with the loop of the process.
    """

    can_expire = False

    def __init__(self, bolt: Any, task: Task, *rest: Any) -> None:
        super().__init__(bolt, task, *rest)
        self.size = Stride(1)  # it may be busy after each
        context = task.context
        self._emitter = AsyncEmitter(task, self._settlement)
        # Without Kafka time is simulated, and does not wait for threads.
        self._is_simulated = not context.kafka
        self._now = context.now
        self._reset_every = context.manifest.reset_seconds
        self._slots: dict[RunningInput, None] = {}  # in the order in which they were started
        self._cancelled: deque[tuple[float, RunningInput]] = deque()  # and when each slot is given back
        self._left: set[RunningInput] = set()  # still run after they were cancelled
        self._behind: dict[Key, deque[Tuple]] = {}  # key of a running input → inputs that wait for its end
        self._waiting = 0
        self._ended: SimpleQueue[RunningInput] = SimpleQueue()
        self._resets: deque[Tuple] = deque()
        self._coroutines: set[asyncio.Task[None]] = set()
        self._is_cancelled = False
        self._loop: asyncio.AbstractEventLoop | None = None  # from `prepare` to `cleanup`

    def prepare(self) -> None:
        """Starts the event loop."""
        bolt, context = self._bolt, self._task.context
        self._settings = settings = AsyncSettings.of(context.component, bolt, context.manifest)
        self.stop_timeout = settings.stop_timeout
        if settings.stop_timeout > (longest := self._task.topology.stop_timeout):
            raise TopologyError(
                f"stop_timeout of bolt {context.component!r} is {settings.stop_timeout:g} s, but its process is killed "
                f"{longest:g} s after a stop began: set it in the class, and not in the instance"
            )
        self._loop = loop = asyncio.new_event_loop()
        name = f"{context.component}/{context.task} event loop"
        self._thread = threading.Thread(target=loop.run_forever, name=name, daemon=True)
        self._thread.start()
        try:
            self._await(self._prepare_bolt())
        except BaseException:
            self._end_loop()
            raise

    def process(self, inputs: Any) -> None:
        """Starts the coroutines of tuples, and settles the inputs whose coroutines have ended."""
        for tuple_ in inputs:
            self._take(tuple_)
        while self._resets:
            self._settlement.reset_timeout(self._resets.popleft())
        self._settle_ended()

    def tick(self, now: float) -> None:
        self.process(())
        self._look_at_time(now)

    @property
    def tick_interval(self) -> float:
        return _LOOK_SECONDS

    @property
    def is_busy(self) -> bool:
        failures = self.failures
        if failures.pause is not None and (failures.is_paused or (failures.tries_one and self.running_inputs)):
            return True
        concurrency = self._settings.concurrency
        return len(self._slots) >= concurrency or self._waiting >= concurrency

    @property
    def utilization(self) -> float:
        return 1.0 if self.is_busy else len(self._slots) / self._settings.concurrency

    @property
    def running_inputs(self) -> int:
        return len(self._slots) + self._waiting

    @property
    def is_expected(self) -> bool:
        has_limit = self._bolt.time_limit is not None
        return has_limit and self.is_busy and not any(each.is_settled for each in self._slots)

    def forget_waiting(self) -> None:
        for behind in self._behind.values():
            behind.clear()
        self._waiting = 0

    def wait(self, seconds: float) -> None:
        if self._slots:
            try:
                self._finish(self._ended.get(timeout=seconds))
            except Empty:
                return
            self._settle_ended()

    def cleanup(self) -> None:
        """Cancels coroutines that still run, and ends the event loop."""
        if self._loop is None:
            return
        try:
            self._settle_ended()
        finally:
            # Nothing is settled from here on: what a cancelled coroutine still does is not an outcome.
            try:
                self._await(self._cancel(), 2 * _CANCEL_SECONDS)
                self._await(self._cleanup_bolt(), _CLEANUP_SECONDS)
            finally:
                self._end_loop()

    # In the event loop

    async def _prepare_bolt(self) -> None:
        await self._bolt.prepare_async(self._task.context)

    async def _execute_bolt(self, input_: Tuple, collector: AsyncCollector) -> None:
        await self._bolt.execute_async(input_, collector)

    async def _cleanup_bolt(self) -> None:
        await self._bolt.cleanup_async()

    def _begin(self, started: RunningInput) -> None:
        coroutine = asyncio.ensure_future(self._execute(started))
        started.coroutine = coroutine
        self._coroutines.add(coroutine)
        coroutine.add_done_callback(partial(self._has_ended, started))

    async def _execute(self, started: RunningInput) -> None:
        try:
            await self._execute_bolt(started.input, AsyncCollector(started))
        except Exception as error:  # noqa: BLE001 - any exception of a user's bolt
            started.error = error
        except BaseException as error:
            if self._is_cancelled:
                raise  # it has no outcome: the input stays open, and is read again
            started.error = error
        self._report(started)

    def _has_ended(self, started: RunningInput, coroutine: asyncio.Task[None]) -> None:
        self._coroutines.discard(coroutine)
        if not (started.is_done or self._is_cancelled):
            self._report(started)  # it was cancelled before it began

    def _report(self, started: RunningInput) -> None:
        if started.is_overdue:  # even if it suppressed its cancellation
            started.error = self._over_limit()
        started.is_done = True
        self._ended.put(started)

    def _cancel_overdue(self, started: RunningInput) -> None:
        if started.coroutine is not None and not started.is_done:
            started.is_overdue = True
            started.coroutine.cancel()

    async def _cancel(self) -> None:
        self._is_cancelled = True
        for coroutine in self._coroutines:
            coroutine.cancel()
        if self._coroutines:
            await asyncio.wait(self._coroutines, timeout=_CANCEL_SECONDS)

    # In the task's thread

    def _take(self, tuple_: Tuple) -> None:
        """Starts an input, unless an earlier one of its key runs."""
        ordered_by = self._settings.ordered_by
        if not ordered_by:
            self._start(tuple_, None)
            return
        key = tuple(tuple_[field] for field in ordered_by)
        try:
            behind = self._behind.get(key)
        except TypeError as error:
            self.failures.handle((tuple_,), TypeError(f"{error}: the bolt is ordered_by {', '.join(ordered_by)}"))
            return
        if behind is None:
            self._behind[key] = deque()
            self._start(tuple_, key)
        else:
            behind.append(tuple_)
            self._waiting += 1

    def _start(self, tuple_: Tuple, key: Key) -> None:
        started = RunningInput(tuple_, key, self._now(), self._resets)
        self._slots[started] = None
        self._call(self._begin, started)
        if self._is_simulated:
            self._finish(self._ended.get())

    def _settle_ended(self) -> None:
        while not self._ended.empty():
            self._finish(self._ended.get())

    def _finish(self, ended: RunningInput) -> None:
        self._slots.pop(ended, None)
        self._left.discard(ended)
        if not ended.is_settled:
            self._settle_and_start_next(ended)

    def _settle_and_start_next(self, ended: RunningInput) -> None:
        ended.is_settled = True
        self._settle(ended)
        if ended.key is None:
            return
        behind = self._behind[ended.key]
        if behind and self.failures.is_paused:
            self._waiting -= len(behind)
            self._settlement.retries.defer(self._behind.pop(ended.key))
        elif behind:
            self._waiting -= 1
            self._start(behind.popleft(), ended.key)
        else:
            del self._behind[ended.key]

    def _look_at_time(self, now: float) -> None:
        """Cancels coroutines that have exceeded their time limit."""
        oldest = next(iter(self._slots), None)
        if oldest is None or not self.is_busy or now - oldest.since < self._reset_every:
            self.busy_since = None
        elif self.busy_since is None:
            self.busy_since = oldest.since
        overdue_since = now - self._settings.time_limit
        for started in self._slots:
            if started.since > overdue_since:
                break
            if not started.is_cancelled:
                started.is_cancelled = True
                self._cancelled.append((now + _CANCEL_SECONDS, started))
                self._call(self._cancel_overdue, started)
        while self._cancelled and now >= self._cancelled[0][0]:
            _, started = self._cancelled.popleft()
            if not started.is_settled:
                self._leave(started)

    def _leave(self, started: RunningInput) -> None:
        """Fails an input whose coroutine has ignored that it was cancelled, and gives its slot back."""
        settings, pack, component = self._settings, started.input.pack, self._task.context.component
        if len(self._left) < settings.concurrency:
            self._left.add(started)
            del self._slots[started]
            text = f"{_STUBBORN} Another input takes its place; %d such coroutines still run"
        else:
            text = f"{_STUBBORN} Its place stays taken until it ends, because %d such coroutines still run"
        at = (component, self._task.context.task, started.input.topic, pack.partition, pack.offset)
        logger.error(text, *at, _CANCEL_SECONDS, settings.time_limit, len(self._left))
        started.is_overdue, started.error = True, self._over_limit()
        self._settle_and_start_next(started)

    def _over_limit(self) -> TimeoutError:
        return TimeoutError(f"execute_async() exceeded its time_limit of {self._settings.time_limit:g} s")

    def _settle(self, ended: RunningInput) -> None:
        error, input_ = ended.error, ended.input
        if error is None:
            try:
                effects = self._emitter.check(ended.emits, ended.answers)
            except BaseException as refused:  # noqa: BLE001 - anything that the user's values and groupings raise
                error = refused
        if error is not None:
            self.failures.handle((input_,), error)
            return
        self.failures.in_a_row = 0
        self._emitter.send(input_, effects)
        self._settlement.ack(input_)

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
            logger.warning("%s is blocked: calls that block belong in asyncio.to_thread()", self._thread.name)
        else:
            loop.close()  # type: ignore[union-attr]

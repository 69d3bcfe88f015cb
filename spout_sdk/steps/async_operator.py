"""Awaits the function of a step for many rows at a time."""

from collections.abc import Callable
from typing import Any

from spout_sdk.api.row_types import maker
from spout_sdk.api.tuples import InputStream, Tuple
from spout_sdk.emitting.task import Task
from spout_sdk.operators.async_operator import AsyncOperator
from spout_sdk.operators.running_input import AsyncCollector
from spout_sdk.steps.context import StepContext
from spout_sdk.steps.emitter import checked_row
from spout_sdk.steps.resources import OpenResources


class AsyncStepOperator(AsyncOperator):
    """Runs the coroutines of a function; its results are emitted when the coroutine has ended."""

    def __init__(self, bolt: Any, task: Task, *rest: Any) -> None:
        super().__init__(bolt, task, *rest)
        self._step = bolt.step
        self._make: dict[InputStream, Callable[[Any], Any]] = {}
        self._resources = OpenResources(bolt.step.resources)
        self._opened: dict[str, Any] = {}

    async def _prepare_bolt(self) -> None:
        self._opened = await self._resources.open_async()

    async def _cleanup_bolt(self) -> None:
        await self._resources.close_async()

    async def _execute_bolt(self, input_: Tuple, collector: AsyncCollector) -> None:
        step, stream = self._step, input_.pack.stream
        if (make := self._make.get(stream)) is None:
            self._make[stream] = make = maker(self._task.topology.row_types, step.takes, stream)
        arguments = [make(input_.values)]
        if step.has_context:
            failures_of = self._settlement.retries.failures_of
            arguments.append(StepContext(self._task.context, input_, collector.answer, failures_of))
        returned = step.call(*arguments, **self._opened)
        if hasattr(returned, "__aiter__"):
            rows = [row async for row in returned]
        else:
            result = await returned
            rows = [*result] if step.returns == "rows" else [] if result is None else [result]
        for row in rows:
            collector.emit(checked_row(self._task.context.component, step.gives, row)[1])

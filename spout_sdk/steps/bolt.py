"""The bolts that are made of functions; `set_bolt` and `Stream.step` make them."""

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from spout_sdk.api.components import AnyBolt
from spout_sdk.api.context import TaskContext
from spout_sdk.api.needs import Needs
from spout_sdk.api.row_types import RowType, maker
from spout_sdk.api.topology import STOP_TIMEOUT
from spout_sdk.api.tuples import InputStream, Tuple
from spout_sdk.emitting.task import Task
from spout_sdk.errors import EmitError
from spout_sdk.operators.async_bolt import AsyncBolt
from spout_sdk.operators.async_operator import AsyncOperator
from spout_sdk.operators.running_input import AsyncCollector
from spout_sdk.steps.context import StepContext
from spout_sdk.steps.function import StepFunction
from spout_sdk.steps.operator import StepOperator
from spout_sdk.steps.resources import OpenResources
from tuple_tree.streams import DEFAULT_STREAM, Stream


class StepBolt(AnyBolt):
    """Calls a function with each row; all tasks share it, because it has no state.

    Attributes:
        step: the function.
        takes: the type of its rows.
    """

    needs = Needs("a step", called_by=StepOperator, instance=True, answers=True)
    answers = False

    def __init__(self, step: StepFunction) -> None:
        self.step, self.takes = step, step.takes
        self.streams, self.row_types = _declared(step)  # type: ignore[misc]

    def __call__(self) -> "StepBolt":
        """The bolt of a task."""
        return self


class AsyncStepOperator(AsyncOperator):
    """Runs the coroutines of an `AsyncStepBolt`."""

    def __init__(self, bolt: Any, task: Task, *rest: Any) -> None:
        super().__init__(bolt, task, *rest)
        bolt.task = task
        bolt.failures_of = self._settlement.retries.failures_of


class AsyncStepBolt(AsyncBolt):
    """Awaits a function for many rows at a time; what it returns is emitted when it has ended.

    Args:
        options: `concurrency`, `time_limit`, `stop_timeout` and `ordered_by`, as of `AsyncBolt`.

    Attributes:
        step: the function.
        takes: the type of its rows.
        task: that calls it.
        failures_of: returns how often a tuple that the task executes again has failed.
    """

    needs = replace(AsyncBolt.needs, kind="an async step", called_by=AsyncStepOperator, instance=True, never_called={})
    task: Task
    failures_of: Callable[[Tuple], int]

    def __init__(self, step: StepFunction, options: Mapping[str, Any]) -> None:
        self.step, self.takes = step, step.takes
        self.streams, self.row_types = _declared(step)  # type: ignore[misc]
        self.concurrency = options.get("concurrency", self.concurrency)
        self.time_limit = options.get("time_limit")
        self.stop_timeout = options.get("stop_timeout", STOP_TIMEOUT)
        self.ordered_by = options.get("ordered_by", ())
        self._make: dict[InputStream, Callable[[Any], Any]] = {}
        self._resources = OpenResources(step.resources)
        self._opened: dict[str, Any] = {}

    def __call__(self) -> "AsyncStepBolt":
        """The bolt of a task."""
        made = copy.copy(self)
        made._make, made._resources = {}, OpenResources(self.step.resources)
        return made

    async def prepare_async(self, context: TaskContext) -> None:  # noqa: ARG002 - as of `AsyncBolt`
        self._opened = await self._resources.open_async()

    async def cleanup_async(self) -> None:
        await self._resources.close_async()

    async def execute_async(self, tuple_: Tuple, collector: AsyncCollector) -> None:
        step, stream = self.step, tuple_.pack.stream
        if (make := self._make.get(stream)) is None:
            self._make[stream] = make = maker(self.task.topology.row_types, step.takes, stream)
        arguments = [make(tuple_.values)]
        if step.has_context:
            arguments.append(StepContext(self.task.context, tuple_, collector.answer, self.failures_of))
        returned = step.call(*arguments, **self._opened)
        if inspect.isasyncgen(returned) or hasattr(returned, "__aiter__"):
            async for row in returned:
                self._emit(row, collector)
            return
        result = await returned
        if step.returns == "row" and result is not None:
            self._emit(result, collector)
        elif step.returns == "rows":
            for row in result:
                self._emit(row, collector)

    def _emit(self, row: Any, collector: AsyncCollector) -> None:
        gives: RowType[Any] = self.row_types[DEFAULT_STREAM]
        try:
            values = gives.values(gives.checked(row))
        except Exception as error:  # of msgspec, or of a member that has another type
            component, names = self.task.context.component, gives.stream.field_names
            raise EmitError(component, DEFAULT_STREAM, names, f"{error}: return what the annotation says") from error
        collector.emit(values)


def step_bolt(step: StepFunction, options: Mapping[str, Any] = {}) -> AnyBolt:
    """The bolt of a function."""
    return AsyncStepBolt(step, options) if step.is_async else StepBolt(step)


def _declared(step: StepFunction) -> tuple[Sequence[Stream], Mapping[str, RowType[Any]]]:
    """The streams of a step, and the types of their rows."""
    return ((), {}) if step.gives is None else ((step.gives.stream,), {DEFAULT_STREAM: step.gives})

"""The bolts that are made of functions; `set_bolt` and `Stream.step` make them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from spout_sdk.api.components import AnyBolt
from spout_sdk.api.needs import Needs
from spout_sdk.api.row_types import RowType
from spout_sdk.arrow import ArrowBolt
from spout_sdk.operators.async_bolt import AsyncBolt
from spout_sdk.steps.async_operator import AsyncStepOperator
from spout_sdk.steps.column_operator import ColumnStepOperator
from spout_sdk.steps.function import StepFunction
from spout_sdk.steps.operator import StepOperator
from tuple_tree.streams import DEFAULT_STREAM


class StepBolt(AnyBolt):
    """The function of a step; all tasks share it, because what a task has is in its operator.

    Attributes:
        step: the function.
        takes: the type of its rows.
    """

    needs = Needs("a step", called_by=StepOperator, instance=True, answers=True)
    answers = False

    def __init__(self, step: StepFunction) -> None:
        self.step, self.takes = step, step.takes
        gives = step.gives
        self.streams = () if gives is None else (gives.stream,)  # type: ignore[misc]
        self.row_types: Mapping[str, RowType[Any]] = {} if gives is None else {DEFAULT_STREAM: gives}

    def __call__(self) -> "StepBolt":
        """The bolt of a task."""
        return self


class AsyncStepBolt(StepBolt):
    """A function that is awaited; the settings are those of an `AsyncBolt`."""

    needs = replace(AsyncBolt.needs, kind="an async step", called_by=AsyncStepOperator, instance=True, never_called={})
    concurrency = AsyncBolt.concurrency
    time_limit: float | None = AsyncBolt.time_limit
    stop_timeout = AsyncBolt.stop_timeout
    ordered_by: Sequence[str] | str = AsyncBolt.ordered_by

    def __init__(self, step: StepFunction, settings: Mapping[str, Any]) -> None:
        super().__init__(step)
        vars(self).update(settings)


class ColumnStepBolt(StepBolt):
    """A function of record batches."""

    needs = replace(ArrowBolt.needs, kind="a step of record batches", called_by=ColumnStepOperator, instance=True)


def step_bolt(step: StepFunction, settings: Mapping[str, Any] | None = None) -> StepBolt:
    """The bolt of a function; with settings if it is awaited."""
    if step.returns == "columns":
        return ColumnStepBolt(step)
    return AsyncStepBolt(step, settings or {}) if step.is_async else StepBolt(step)


def has_context(made: Any) -> bool:
    """Whether a component is a step whose function takes a `StepContext`."""
    return isinstance(made, StepBolt) and made.step.has_context

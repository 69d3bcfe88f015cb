"""Calls the function of a step with record batches, and emits the columns that it returns."""

from functools import partial
from typing import Any

from spout_sdk.arrow import ArrowCollector, ArrowOperator
from spout_sdk.bolts.input_rows import ArrowInput
from spout_sdk.emitting.task import Task
from spout_sdk.steps.resources import OpenResources


class ColumnStepOperator(ArrowOperator):
    """Calls a function with a record batch; each row that it returns is anchored to the row at its place."""

    def __init__(self, bolt: Any, task: Task, *rest: Any) -> None:
        super().__init__(bolt, task, *rest)
        self._step = bolt.step
        self._resources = OpenResources(bolt.step.resources)

    def prepare(self) -> None:
        """Opens the resources of the task."""
        self._function = partial(self._step.call, **self._resources.open())

    def cleanup(self) -> None:
        """Closes the resources of the task."""
        self._resources.close()

    def _execute(self, rows: ArrowInput, collector: ArrowCollector) -> None:
        returned = self._function(rows.batch)
        if self._step.gives is not None:
            if returned.num_rows != len(rows):
                raise ValueError(
                    f"it returned {returned.num_rows} rows for {len(rows)}: return a row for each, in their order; "
                    "drop rows with filter(), or write an ArrowBolt, whose emit() has anchors="
                )
            collector.emit(returned)
        collector.ack()

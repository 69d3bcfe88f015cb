"""Calls the function of a step with each row, and emits the results of a call together."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from spout_sdk.api.row_types import RowType, maker
from spout_sdk.api.tuples import InputStream, Tuple
from spout_sdk.bolts.call_sizes import MOST_TUPLES, BatchSize, Stride
from spout_sdk.bolts.input_rows import InputRows, first_of
from spout_sdk.bolts.operator import Operator
from spout_sdk.emitting.task import Task
from spout_sdk.steps.call import BatchCall, Call, FilterCall, IteratorCall, RowCall
from spout_sdk.steps.context import StepContext
from spout_sdk.steps.emitter import StepEmitter
from spout_sdk.steps.function import Returns
from spout_sdk.steps.resources import OpenResources
from tuple_tree.errors import WireError, describe

_CALLS: Final[dict[Returns, type[Call]]] = {
    "row": RowCall,
    "nothing": RowCall,
    "rows": IteratorCall,
    "test": FilterCall,
    "batch": BatchCall,
}


class RowsOperator(Operator):
    """Base of the operators of steps: a call gets rows, and settles its inputs together."""

    takes_rows = True
    _function: Callable[[Any], Any]
    _makes_call: Callable[..., Call]

    def __init__(self, bolt: Any, task: Task, *rest: Any) -> None:
        super().__init__(bolt, task, *rest)
        self.size = Stride(MOST_TUPLES)
        self._takes: RowType[Any] | None = bolt.takes
        self._has_context = False
        self._emitter = StepEmitter(task)
        self._make: dict[InputStream, Callable[[Any], Any]] = {}

    def prepare(self) -> None:
        """Does nothing: a function has no `prepare`."""

    def cleanup(self) -> None:
        """Does nothing: a function has no `cleanup`."""

    def process(self, inputs: Any) -> None:
        inputs, rows = self._read(inputs)
        if not rows:
            return
        if self._has_context:
            tuples = inputs.tuples() if isinstance(inputs, InputRows) else inputs
            rows = [(row, self._context(at)) for row, at in zip(rows, tuples, strict=True)]
        call = self._makes_call(self.failures, self._settlement, self._emitter, inputs, rows)
        try:
            call.execute(self._function)
        finally:
            call.end()

    def _read(self, inputs: InputRows | Sequence[Tuple]) -> tuple[InputRows | Sequence[Tuple], list[Any]]:
        """The inputs and the row of each; inputs whose values are no row become dead letters, and are left out."""
        if isinstance(inputs, InputRows) and inputs.values_of is not None:
            return inputs, inputs.rows
        stream = first_of(inputs)[0].stream
        values = inputs.rows if isinstance(inputs, InputRows) else [each.values for each in inputs]
        if (make := self._make.get(stream)) is None:
            make = maker(self._task.topology.row_types, self._takes, stream)
            self._make[stream] = make
        with suppress(Exception):  # of one input
            return inputs, [*map(make, values)]
        tuples = inputs.tuples() if isinstance(inputs, InputRows) else inputs
        read, rows = list[Tuple](), list[Any]()
        for tuple_ in tuples:
            try:
                rows.append(make(tuple_.values))
            except Exception as error:  # noqa: BLE001 - of the class of the rows, or of msgspec
                self._settlement.reject(tuple_, WireError("bad-payload", f"{self._takes}: {describe(error)}"))
            else:
                read.append(tuple_)
        return read, rows

    def _context(self, tuple_: Tuple) -> StepContext:
        settlement = self._settlement
        answer = partial(settlement.writes.answer, tuple_)
        return StepContext(self._task.context, tuple_, answer, settlement.retries.failures_of)


class StepOperator(RowsOperator):
    """Calls a function with each row.

    The results of a call are emitted together, each anchored to its row; then the rows are acked. A row whose function
    raises has no results, and fails alone: no other row is executed again.
    """

    def __init__(self, bolt: Any, task: Task, *rest: Any) -> None:
        super().__init__(bolt, task, *rest)
        step = bolt.step
        self._has_context = step.has_context
        self._resources = OpenResources(step.resources)
        self._makes_call = _CALLS[step.returns]
        if step.returns == "batch":
            self.size = BatchSize()

    def prepare(self) -> None:
        """Opens the resources of the task."""
        call, opened = self._bolt.step.call, self._resources.open()
        if opened:
            call = partial(call, **opened)
        self._function = (lambda row_and_context: call(*row_and_context)) if self._has_context else call

    def cleanup(self) -> None:
        """Closes the resources of the task."""
        self._resources.close()

"""The rows of a call of a step, their results, and the settlement of its inputs."""

from collections.abc import Iterator
from typing import Any

from spout_sdk.api.tuples import Tuple
from spout_sdk.bolts.execute_failures import ExecuteFailures
from spout_sdk.bolts.input_rows import InputRows, first_of
from spout_sdk.bolts.settlement import Settlement
from spout_sdk.errors import EmitError
from spout_sdk.operators.bolt import places_of
from spout_sdk.steps.rows_emitter import RowsEmitter


class Call:
    """The rows of a call, and what became of them.

    Attributes:
        rows: the argument of the function for each input.
        results: rows that are not emitted.
        of: for each of them the index of its input in the record.
    """

    def __init__(
        self, failures: ExecuteFailures, settlement: Settlement, emitter: RowsEmitter, inputs: Any, rows: list[Any]
    ) -> None:
        self._failures, self._settlement, self._emitter = failures, settlement, emitter
        self._inputs, self.rows = inputs, rows
        self._pack, _ = first_of(inputs)
        self._indices = inputs.indices if isinstance(inputs, InputRows) else [each.index for each in inputs]
        self.results: list[Any] = []
        self.of: list[int] = []
        self._failed: set[int] = set()
        self._executed = 0  # inputs, from the first

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        """The index and the row of each input."""
        return zip(self._indices, self.rows, strict=True)

    def failed(self, index: int, error: BaseException) -> bool:
        """Handles the exception of an input; returns whether the task pauses, so that the inputs behind it wait.

        Raises:
            ComponentError: if the exception ends the task.
        """
        at = self._indices.index(index)
        if at and self._indices[at - 1] not in self._failed:
            self._failures.in_a_row = 0
        self._failed.add(index)
        self._executed = at
        self._failures.handle((self._tuple(at),), error)
        self._executed = at + 1
        if self._failures.is_paused:
            self._settlement.retries.defer([self._tuple(each) for each in range(at + 1, len(self._indices))])
        return self._failures.is_paused

    def all_failed(self, error: BaseException) -> None:
        """Handles the exception of a call with all inputs; raises as `failed`."""
        self._failed.update(self._indices)
        self._failures.handle([self._tuple(at) for at in range(len(self._indices))], error)

    def has_ended(self) -> None:
        """Notes that all inputs are executed."""
        self._executed = len(self._indices)
        if self._indices[-1] not in self._failed:
            self._failures.in_a_row = 0

    def emit(self) -> None:
        """Emits the results; an input fails if one of its results does not have the type of the step's results."""
        of, pack = [*self.of], self._pack
        results = self.results[: len(of)]  # one more, if a signal has ended the call
        self.results.clear()
        self.of.clear()
        if not results:
            return
        if pack.starts is None:
            places = [pack.first + index for index in of] if pack.batch.is_tracked else [0] * len(of)
            if self._emitter.emit_all(results, pack.batch, places, self._anchors(of)):
                return
        for row, index in zip(results, of, strict=True):
            if index in self._failed:
                continue
            tuple_ = self._tuple(self._indices.index(index))
            try:
                self._emitter.emit_one(row, *places_of((tuple_,), self._settlement), tuple_)
            except EmitError as error:
                self._failed.add(index)
                self._failures.handle((tuple_,), error)

    def end(self) -> None:
        """Emits the results, and acks the inputs that were executed and have not failed."""
        self.emit()
        executed, inputs = self._indices[: self._executed], self._inputs
        if not isinstance(inputs, InputRows) or self._emitter.has_hooks:
            tuples = inputs.tuples() if isinstance(inputs, InputRows) else inputs
            done = [each for each in tuples[: self._executed] if each.index not in self._failed]
            self._settlement.ack_together(done)
        elif executed and not self._pack.has_expired:
            rows = [index for index in executed if index not in self._failed] if self._failed else executed
            if rows:
                self._settlement.ack_indices(self._pack, rows)

    def _anchors(self, of: list[int]) -> Iterator[Tuple]:
        """The input of each result, for hooks."""
        return (self._tuple(self._indices.index(index)) for index in of)

    def _tuple(self, at: int) -> Tuple:
        """One of the inputs, as a tuple."""
        of = self._inputs
        tuple_: Tuple = of[at : at + 1].tuples()[0] if isinstance(of, InputRows) else of[at]
        return tuple_

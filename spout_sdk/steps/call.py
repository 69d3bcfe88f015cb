"""A call of a step with the rows of a record: executes the function, emits its results, and settles the inputs.

The kinds differ in what the function returns.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import compress, groupby, islice, repeat
from operator import itemgetter
from typing import Any, Final

from spout_sdk.api.tuples import Tuple
from spout_sdk.bolts.call_sizes import MOST_TUPLES
from spout_sdk.bolts.execute_failures import ExecuteFailures
from spout_sdk.bolts.input_rows import InputRows, first_of
from spout_sdk.bolts.settlement import Settlement
from spout_sdk.errors import EmitError, FailTupleError
from spout_sdk.operators.bolt import places_of
from spout_sdk.steps.emitter import StepEmitter

_MOST_RESULTS: Final = 4 * MOST_TUPLES  # kept before they are emitted
_MOST_ROWS: Final = 1_000_000  # of one iterator, all in memory: a generator may never end

Results = tuple[Sequence[Any], Sequence[int]]
"""Rows to emit, and for each the position of its input among the rows of the call."""


class Call(ABC):
    """The rows of a call, and what became of them.

    Args:
        rows: the argument of the function for each input.

    Attributes:
        returned: for each executed row what the function has returned; None if it raised.
    """

    def __init__(
        self, failures: ExecuteFailures, settlement: Settlement, emitter: StepEmitter, inputs: Any, rows: list[Any]
    ) -> None:
        self._failures, self._settlement, self._emitter = failures, settlement, emitter
        self._inputs, self._rows = inputs, rows
        self._pack, _ = first_of(inputs)
        self._indices = inputs.indices if isinstance(inputs, InputRows) else [each.index for each in inputs]
        self.returned: list[Any] = []
        self._failed: set[int] = set()  # positions

    def execute(self, function: Callable[[Any], Any]) -> None:
        """Calls the function with each row; a row whose call raises fails alone.

        Raises:
            ComponentError: if an exception ends the task.
        """
        returned, count = self.returned, len(self._rows)
        results = self._calls(function, iter(self._rows))
        while len(returned) < count:
            try:
                # If a call raises, the results before it are kept: the next position is that of its row.
                returned.extend(results)
                if len(returned) < count:
                    raise RuntimeError("it raised StopIteration: call next() with a default")
            except BaseException as error:
                if len(returned) == count:  # a signal, after the last call
                    raise
                if self._has_raised(error):
                    return

    def end(self) -> None:
        """Emits the results, and acks the inputs that were executed and have not failed."""
        self._emit(*self._results())
        executed, inputs = len(self.returned), self._inputs
        if executed and executed - 1 not in self._failed:
            self._failures.in_a_row = 0
        if not isinstance(inputs, InputRows) or self._emitter.has_hooks:
            tuples = inputs.tuples() if isinstance(inputs, InputRows) else inputs
            self._settlement.ack_together([tuples[at] for at in range(executed) if at not in self._failed])
        elif executed and not self._pack.has_expired:
            done = self._indices[:executed]
            if self._failed:
                done = [index for at, index in enumerate(done) if at not in self._failed]
            if done:
                self._settlement.ack_indices(self._pack, done)

    def _calls(self, function: Callable[[Any], Any], rows: Iterator[Any]) -> Iterator[Any]:
        """The results of the calls, which are made one by one."""
        return map(function, rows)

    @abstractmethod
    def _results(self) -> Results:
        """The rows to emit; called once."""

    def _has_raised(self, error: BaseException) -> bool:
        """Handles the exception of the next row; returns whether the task pauses, so that the rows behind it wait.

        Raises:
            ComponentError: if the exception ends the task.
        """
        at = len(self.returned)
        if at and at - 1 not in self._failed:
            self._failures.in_a_row = 0
        self._failed.add(at)
        self.returned.append(None)
        self._failures.handle((self._tuple(at),), error)
        if self._failures.is_paused:
            self._settlement.retries.defer([self._tuple(each) for each in range(at + 1, len(self._rows))])
        return self._failures.is_paused

    def _emit(self, rows: Sequence[Any], positions: Sequence[int]) -> None:
        """Emits rows; an input fails if one of its results does not have the type of the step's results."""
        pack, indices = self._pack, self._indices
        if not rows:
            return
        if pack.starts is None:
            if not pack.batch.is_tracked:
                places = [0] * len(rows)
            elif isinstance(indices, range) and isinstance(positions, range):
                places = [*range(pack.first + indices.start, pack.first + indices.start + len(rows))]
            else:
                places = [pack.first + indices[at] for at in positions]
            try:
                if self._emitter.emit_all(rows, pack.batch, places, map(self._tuple, positions)):
                    return
            except FailTupleError as error:  # too much waits for the transaction; some receivers may have got rows
                for at in dict.fromkeys(positions):
                    self._failed.add(at)
                    self._failures.handle((self._tuple(at),), error)
                return
        for at, group in groupby(zip(positions, rows, strict=True), key=itemgetter(0)):
            if at not in self._failed:
                self._emit_of(at, [row for _, row in group])

    def _emit_of(self, at: int, rows: Sequence[Any]) -> None:
        """Emits the results of one input, if all of them have the type of the step's results."""
        tuple_ = self._tuple(at)
        try:
            checked = [self._emitter.checked(row) for row in rows]
            for each in checked:
                self._emitter.emit_one(*each, *places_of((tuple_,), self._settlement), tuple_)
        except (EmitError, FailTupleError) as error:
            self._failed.add(at)
            self._failures.handle((tuple_,), error)
        else:
            self._failures.in_a_row = 0

    def _tuple(self, at: int) -> Tuple:
        """The input at a position, as a tuple."""
        of = self._inputs
        tuple_: Tuple = of[at : at + 1].tuples()[0] if isinstance(of, InputRows) else of[at]
        return tuple_


class RowCall(Call):
    """The function returns a row or None."""

    def _results(self) -> Results:
        rows = [each for each in self.returned if each is not None]
        if len(rows) == len(self.returned):
            return rows, range(len(rows))
        return rows, [at for at, each in enumerate(self.returned) if each is not None]


class FilterCall(Call):
    """The function returns whether its row goes on."""

    def _calls(self, function: Callable[[Any], Any], rows: Iterator[Any]) -> Iterator[Any]:
        return map(bool, map(function, rows))

    def _results(self) -> Results:
        kept = self.returned
        return [*compress(self._rows, kept)], [*compress(range(len(kept)), kept)]


class IteratorCall(Call):
    """The function returns any number of rows."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._made: list[Any] = []
        self._positions: list[int] = []

    def execute(self, function: Callable[[Any], Any]) -> None:
        made, positions = self._made, self._positions
        for at, row in enumerate(self._rows):
            before = len(made)
            try:
                made += islice(function(row), _MOST_ROWS)
                if len(made) - before == _MOST_ROWS:
                    raise ValueError(
                        f"it returned {_MOST_ROWS:,} rows for one row, which are kept until it ends: return fewer, or "
                        "derive a Bolt, whose emits are sent while it executes"
                    )
            except BaseException as error:  # noqa: BLE001 - anything that a user's function raises
                del made[before:]
                if self._has_raised(error):
                    return
            else:
                positions += repeat(at, len(made) - before)
                self.returned.append(None)
                if len(made) >= _MOST_RESULTS:
                    self._emit(*self._results())

    def _results(self) -> Results:
        positions = [*self._positions]
        rows = self._made[: len(positions)]  # more, if a signal has ended the call
        self._made.clear()
        self._positions.clear()
        return rows, positions


class BatchCall(RowCall):
    """The function takes all rows, and returns a row or None for each, or None."""

    def execute(self, function: Callable[[Any], Any]) -> None:
        count = len(self._rows)
        try:
            returned = function(self._rows)
            if returned is not None and len(returned) != count:
                raise TypeError(
                    f"it returned {len(returned)} results for {count} rows: return one for each row, in their order, "
                    "and None for a row without a result"
                )
        except BaseException as error:  # noqa: BLE001 - anything that a user's function raises
            self._failed.update(range(count))
            self._failures.handle([self._tuple(at) for at in range(count)], error)
        else:
            self.returned = [None] * count if returned is None else [*returned]

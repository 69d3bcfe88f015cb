"""`ArrowBolt`, which takes columns instead of tuples; its collector, and its operator.

from spout_sdk.arrow import ArrowBolt, ArrowCollector
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from itertools import repeat
from typing import Any

import numpy as np

from spout_sdk.api.components import AnyBolt
from spout_sdk.api.context import EmitInfo, TaskContext, TaskId
from spout_sdk.api.needs import Needs
from spout_sdk.api.tuples import NO_TREES, Tuple
from spout_sdk.bolts.call_sizes import BatchSize
from spout_sdk.bolts.input_rows import ArrowInput
from spout_sdk.bolts.operator import Operator
from spout_sdk.bolts.settlement import Settlement
from spout_sdk.emitting.buffer import Part
from spout_sdk.emitting.emit_plan import EmitPlan
from spout_sdk.emitting.task import Task
from spout_sdk.statistics.stats import Counters
from tuple_tree.anchors import Rows
from tuple_tree.errors import describe
from tuple_tree.input_batch import numbered
from tuple_tree.streams import DEFAULT_STREAM

__all__ = ["ArrowBolt", "ArrowCollector"]


def row_numbers(rows: Any, size: int) -> Rows:
    """Positions of rows, from integers in `[0, size)` or a mask of `size` booleans; raises `ValueError` for others."""
    array = np.asarray(rows)
    if array.dtype == np.bool_:
        if array.shape != (size,):
            raise ValueError(f"a mask of shape {array.shape} for {size} rows")
        return np.flatnonzero(array)
    if not array.size:
        return np.empty(0, np.intp)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(f"rows must be integers or a mask, not an array of {array.dtype} of shape {array.shape}")
    if int(array.min()) < 0 or int(array.max()) >= size:
        raise ValueError(f"rows from {array.min()} to {array.max()}, and there are {size}")
    return array.astype(np.intp)


class ArrowCollector:
    """The collector of an `ArrowBolt` for the rows of one call: emits, acks and fails; it may be kept."""

    __slots__ = ("_input", "_settlement", "_task")

    def __init__(self, task: Task, settlement: Settlement, input_: ArrowInput) -> None:
        self._task = task
        self._settlement = settlement
        self._input = input_

    def emit(self, data: Any, *, anchors: Any = None, stream: str = DEFAULT_STREAM) -> None:
        """Sends a tuple for each row to every subscriber of a stream.

        Args:
            data: a table with a column for each field of the stream: a `pyarrow.RecordBatch` or `Table`, a data frame
                of Polars or pandas, or columns by name. Values are cast if that loses nothing.
            anchors: for each row, the row of the call's batch whose trees it joins, integers of shape `(n,)`; `()` for
                untracked tuples. Left out, rows are anchored one to one.
            stream: one of the component's streams.

        Raises:
            EmitError: if the stream is unknown or direct, or rows do not fit it or their anchors; nothing was sent
                then.
            TupleAlreadyDoneError: if an anchor was acked or failed before; nothing was sent then, and its trees fail
                unless they were acked already.
        """
        input_, task = self._input, self._task
        plan = task.plan(stream)
        rows = self._anchors(anchors, plan)
        if rows is not None and (settled := input_.settled[rows]).any():
            # The trees fail, because these children are missing in them.
            late = [
                self._settlement.too_late("emit anchored to", each) for each in input_.tuples(np.unique(rows[settled]))
            ]
            raise late[0]
        codec: Any = plan.codec
        try:
            batch = codec.batch(data)
        except Exception as cause:  # Arrow raises ArrowInvalid, KeyError, TypeError and more
            raise plan.error(f"the columns do not fit ({describe(cause)})") from cause
        if rows is not None and len(rows) != batch.num_rows:
            raise plan.error(
                f"{batch.num_rows} rows, and anchors for {len(rows)}: pass anchors=, the row of the input for each"
            )
        try:
            deliveries = [(route, *share) for route in plan.routes for share in route.choose_rows(codec, batch)]
        except (TypeError, ValueError) as cause:
            raise plan.error(f"the rows cannot be grouped by ({describe(cause)})") from cause
        self.metrics.emitted += batch.num_rows
        joined = NO_TREES if rows is None else input_.pack.batch
        numbers = None if rows is None else input_.numbers(rows)
        parts = []
        try:
            for route, number, share in deliveries:
                part = batch[share] if isinstance(share, slice) else batch.take(share)
                places, counts = (
                    (np.zeros(part.num_rows, np.intp), None) if rows is None else input_.places(rows[share])
                )
                if numbers is not None:
                    places = numbered(places, numbers[share], counts)
                parts.append(Part(route.packs[number], part, places, counts))
            task.outbox.add_columns(parts, joined)
        except BaseException:
            if rows is not None:
                task.outbox.keep_open((joined, place) for place in input_.places(np.unique(rows))[0].tolist())
            raise
        if not task.context.hooks:
            return
        receivers: list[tuple[TaskId, ...]] = [()] * batch.num_rows
        for route, number, share in deliveries:
            for row in np.arange(batch.num_rows)[share].tolist():
                receivers[row] += (route.tasks[number],)
        parents: Iterable[tuple[Tuple, ...]] = repeat(()) if rows is None else zip(input_.tuples(rows))
        for values, tasks, anchors_ in zip(codec.readable(batch)[0], receivers, parents, strict=False):
            info = EmitInfo(values, stream, tasks, anchors=anchors_)
            task.run_hooks(lambda hook, info=info: hook.emit(info))  # type: ignore[misc]

    def ack(self, rows: Any = None) -> None:
        """Acks rows: they were processed.

        Args:
            rows: positions in the call's batch, or a mask; by default all rows that are neither acked nor failed.

        Raises:
            TupleAlreadyDoneError: if one was acked or failed before; none is acked then.
        """
        places = self._open(rows, "ack")
        if not len(places):
            return
        input_ = self._input
        self._settlement.ack_rows(input_, places)
        for tuple_ in input_.tuples(places) if self._task.context.hooks else ():
            self._task.run_hooks(lambda hook, tuple_=tuple_: hook.bolt_ack(tuple_))  # type: ignore[misc]

    def fail(self, message: str | BaseException = "", rows: Any = None) -> None:
        """Fails the trees of rows that could not be processed, with the message.

        Args:
            message: the reason, as text.
            rows: as for `ack`.

        Raises:
            TupleAlreadyDoneError: if one was acked or failed before; none is failed then.
        """
        places = self._open(rows, "fail")
        failed = self._input.tuples(places)
        for tuple_ in failed:
            self._settlement.fail(tuple_, message)

    def retry(self, message: str | BaseException = "", rows: Any = None, *, delay: float | None = None) -> None:
        """Has rows executed again later, in this task, as `OutputCollector.retry` does for a tuple.

        Args:
            message: the reason, as text.
            rows: as for `ack`.
            delay: seconds until then; without it the delay of the bolt's `RetryPolicy`.

        Raises:
            TupleAlreadyDoneError: if one was acked or failed before; none is retried then.
        """
        places, whole = self._open(rows, "retry"), self._input[:]
        for tuple_ in self._input.tuples(places):
            self._settlement.retry(tuple_, message, delay, whole)

    def reset_timeout(self) -> None:
        """Restarts the clock of the trees of rows that are neither acked nor failed: they are still being worked on."""
        for tuple_ in self._input.tuples(self._input.open_rows()):
            self._settlement.reset_timeout(tuple_)

    def report_error(self, error: BaseException) -> None:
        """Reports an error after which the task continues: it is logged, counted and shown in the stats."""
        self._task.report_error(error)

    @property
    def metrics(self) -> Counters:
        """Live counters of the tasks of this process; read-only."""
        return self._task.environment.counters

    def _open(self, rows: Any, action: str) -> Rows:
        input_ = self._input
        if rows is None:
            return input_.open_rows()
        places = np.unique(row_numbers(rows, len(input_)))
        if input_.settled[places].any():
            raise input_.pack.already_done(action)
        return places

    def _anchors(self, anchors: Any, plan: EmitPlan) -> Rows | None:
        """The rows of the input that emitted rows are anchored to; None for untracked ones."""
        if anchors is None:
            return np.arange(len(self._input))
        if isinstance(anchors, tuple) and not anchors:
            return None
        try:
            return row_numbers(anchors, len(self._input))
        except ValueError as error:
            raise plan.error(f"anchors= is invalid: {error}") from error


class ArrowOperator(Operator):
    """Calls an `ArrowBolt` with a record batch, and a collector for its rows."""

    takes_columns = takes_several = True
    makes_size = BatchSize

    def process(self, inputs: Any) -> None:
        rows = inputs[:]  # for the collector, which may be kept
        try:
            self._execute(rows, ArrowCollector(self._task, self._settlement, rows))
        except BaseException as error:  # noqa: BLE001 - anything that a user's bolt raises
            self.failures.handle(rows.as_tuples(), error, inputs)
        else:
            self.failures.in_a_row = 0

    def _execute(self, rows: ArrowInput, collector: ArrowCollector) -> None:
        self._bolt.execute_batch(rows.batch, collector)


class ArrowBolt(AnyBolt, ABC):
    """A bolt that processes Arrow record batches, one row for each tuple.

    The streams that it receives and emits to have the codec `arrow`, the default of `declare`.

    Attributes:
        streams: the streams that it emits to, made with `declare`.
    """

    needs = Needs("an ArrowBolt", called_by=ArrowOperator, columns=True)

    def prepare(self, context: TaskContext) -> None:
        """Called once, before anything else."""

    @abstractmethod
    def execute_batch(self, batch: Any, collector: ArrowCollector) -> None:
        """Process rows of one record, and ack or fail each, now or later.

        If it raises, the rows that are still open fail with the exception's type and text.

        Args:
            batch: a `pyarrow.RecordBatch` with a column for each field of the stream; all rows are of one stream. If
                Arrow has no type for a field's Avro type, its column holds bytes: the Avro body of each value.
            collector: for these rows: `collector.emit(table)`, `collector.ack()`. Keep it to ack them later.
        """

    def cleanup(self) -> None:
        """Called at a clean stop and when the task moves to another process; rows may still be acked here."""

"""The rows that an `ArrowBolt` receives, and its collector: as in `collectors`, but with columns instead of tuples."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spout_sdk.api.context import EmitInfo, TaskId
from spout_sdk.api.tuples import NO_TREES, InputPack, Tuple
from spout_sdk.bolts.settlement import Settlement
from spout_sdk.emitting.emit_plan import EmitPlan
from spout_sdk.emitting.task import Task
from spout_sdk.statistics.stats import Counters
from tuple_tree.anchors import Rows
from tuple_tree.errors import describe
from tuple_tree.ids import IdColumn
from tuple_tree.input_batch import numbered
from tuple_tree.streams import DEFAULT_STREAM

if TYPE_CHECKING:
    from tuple_tree.arrow_packs import PackCodec


@dataclass(slots=True, eq=False, repr=False)
class ArrowInput:
    """Rows of a record, as a record batch; a slice of it shares everything with the whole."""

    batch: Any
    pack: InputPack
    codec: "PackCodec"
    indices: Rows  # shape `(n,)`: the index of each row among the record's tuples

    @classmethod
    def of(cls, batch: Any, pack: InputPack, codec: "PackCodec") -> "ArrowInput":
        """The rows of a record that are neither acked nor failed."""
        indices = np.flatnonzero(np.frombuffer(pack.settled, np.uint8) == 0)
        return cls(batch if len(indices) == pack.size else batch.take(indices), pack, codec, indices)

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def __getitem__(self, rows: slice) -> "ArrowInput":
        begin, end, _ = rows.indices(len(self))
        part = self.batch.slice(begin, end - begin)
        return ArrowInput(part, self.pack, self.codec, self.indices[begin:end])

    def __iter__(self) -> Iterator[Tuple]:
        return iter(self.tuples(np.arange(len(self))))

    @property
    def settled(self) -> NDArray[np.bool_]:
        """Shape `(n,)`: whether each row was acked or failed."""
        settled: NDArray[np.bool_] = np.frombuffer(self.pack.settled, np.uint8)[self.indices] != 0
        return settled

    def open_rows(self) -> Rows:
        """The rows that were neither acked nor failed."""
        return np.flatnonzero(~self.settled)

    def places(self, rows: Rows) -> tuple[Rows, Rows | None]:
        """Places of some rows in the input batch, and how many each row has; None if each has one."""
        pack = self.pack
        rows = self.indices[rows]
        if not pack.batch.is_tracked:
            return np.zeros(len(rows), np.intp), None
        return pack.places_of(rows), None if pack.starts is None else pack.starts[rows + 1] - pack.starts[rows]

    def numbers(self, rows: Rows) -> IdColumn | None:
        """The numbers of tuples that are emitted, each anchored to one row; None if they need no identities.

        A row with several places, or none, gives no identity.
        """
        pack = self.pack
        if pack.batch.emitted is None:
            return None
        rows = self.indices[rows]
        if pack.starts is None:
            return pack.batch.numbers(rows + pack.first)
        numbers, is_single = np.zeros(len(rows), np.uint64), np.diff(pack.starts)[rows] == 1
        numbers[is_single] = pack.batch.numbers(pack.starts[rows[is_single]] + pack.first)
        return numbers

    def tuples(self, rows: Rows) -> list[Tuple]:
        """Some rows as tuples."""
        values = self.codec.readable(self.batch.take(rows))[0]
        return list(map(self.pack.tuple_at, self.indices[rows].tolist(), values))

    def taken_over(self) -> list[Tuple]:
        """Returns all rows as tuples, and keeps none."""
        made = list(self)
        self.batch, self.indices = self.batch.slice(0, 0), self.indices[:0]
        return made


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

    __slots__ = ("_began", "_input", "_settlement", "_task")

    def __init__(self, task: Task, settlement: Settlement, input_: ArrowInput) -> None:
        self._task = task
        self._settlement = settlement
        self._input = input_
        self._began = task.environment.clock()

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
        try:
            for route, number, share in deliveries:
                part = batch[share] if isinstance(share, slice) else batch.take(share)
                places, counts = (
                    (np.zeros(part.num_rows, np.intp), None) if rows is None else input_.places(rows[share])
                )
                if numbers is not None:
                    places = numbered(places, numbers[share], counts)
                task.outbox.add_columns(route.packs[number], part, joined, places, counts)
            task.outbox.send_full([route.packs[number] for route, number, _ in deliveries])
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
        self.metrics.process_latency.record(self._task.environment.clock() - self._began)

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

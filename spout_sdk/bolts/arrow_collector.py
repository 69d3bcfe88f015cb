"""The collector of an `ArrowBolt`: columns instead of tuples, by the rules of `collectors`."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from spout_sdk.api.context import EmitInfo, TaskId
from spout_sdk.bolts.arrow_input import ArrowInput, row_numbers
from spout_sdk.bolts.collectors import OutputCollector
from spout_sdk.emitting.emit_plans import open_packs, unknown_stream
from spout_sdk.emitting.groupings import choose_rows
from spout_sdk.emitting.packer import OpenPack
from spout_sdk.errors import EmitError, TopologyError
from spout_sdk.statistics.counters import Counters
from tuple_tree.anchors import Columns, Rows
from tuple_tree.ids import IdColumn, random_column
from tuple_tree.payloads import PackCodec, payload_codec
from tuple_tree.routing import ChooseRows
from tuple_tree.streams import DEFAULT_STREAM, Stream, Values


class ColumnRoute(NamedTuple):
    """The open packs of a stream for one subscriber; as `emit_plans.Route`, for columns."""

    bolt: str
    packs: Sequence[OpenPack]
    choose: ChooseRows


class Emission(NamedTuple):
    """What was emitted with one call: a record batch, and which of its rows each task receives."""

    codec: PackCodec
    batch: Any
    deliveries: Sequence[tuple[ColumnRoute, int, Rows | slice]]

    def tuples(self) -> Iterator[tuple[Values, tuple[TaskId, ...]]]:
        """The values of each row, and the tasks that receive it."""
        size = self.batch.num_rows
        receivers: list[tuple[TaskId, ...]] = [()] * size
        for route, task, rows in self.deliveries:
            for row in np.arange(size)[rows].tolist():
                receivers[row] += (TaskId(route.bolt, task),)
        return zip(self.codec.readable(self.batch)[0], receivers, strict=True)


class ColumnOutput:
    """What all calls of an `ArrowBolt` of a task share; raises `TopologyError` if a stream is not made of packs."""

    def __init__(self, collector: OutputCollector) -> None:
        scope = collector.scope
        self.component = scope.context.component
        self.hooks = scope.context.hooks
        self.clock = scope.environment.clock
        self.collector = collector
        self.counters = scope.environment.counters
        self.acks = scope.acks
        self._entropy = scope.environment.entropy
        self._streams: dict[str, tuple[Stream, PackCodec, list[ColumnRoute]]] = {}
        for stream in scope.context.manifest.component(self.component).streams:
            codec = pack_codec(self.component, stream)
            routes = []
            for subscription, bolt, packs, custom in open_packs(scope.topology, self.component, stream, codec):
                start = int.from_bytes(self._entropy(4))
                choose = choose_rows(codec, subscription, len(packs), stream.field_names, start, custom)
                routes.append(ColumnRoute(bolt, packs, choose))
            self._streams[stream.name] = stream, codec, routes

    def emit(self, input_: ArrowInput, data: Any, anchors: Rows | None, stream: str) -> Emission:
        """Sends rows as `ArrowCollector.emit`; anchors are rows of the input, or None for untracked rows."""
        if stream not in self._streams:
            raise unknown_stream(self.component, stream, self._streams)
        declared, codec, routes = self._streams[stream]

        def error(detail: str) -> EmitError:
            return EmitError(self.component, stream, declared.field_names, detail)

        try:
            batch = codec.batch(data)
        except Exception as cause:  # Arrow raises ArrowInvalid, KeyError, TypeError and more
            raise error(f"the columns do not fit ({type(cause).__name__}: {cause})") from cause
        if anchors is not None and len(anchors) != batch.num_rows:
            raise error(
                f"{batch.num_rows} rows, and anchors for {len(anchors)}: pass anchors=, the row of the input for each"
            )
        try:
            deliveries = [(route, *share) for route in routes for share in route.choose(batch)]
        except (TypeError, ValueError) as cause:
            raise error(f"the rows cannot be grouped by ({type(cause).__name__}: {cause})") from cause
        self.counters.emitted += batch.num_rows
        packer = self.collector.packer
        for route, task, rows in deliveries:
            part = batch[rows] if isinstance(rows, slice) else batch.take(rows)
            of_rows = np.empty(0, np.intp) if anchors is None else anchors[rows]
            columns = Columns(part, *self._joined(input_, of_rows, part.num_rows))
            packer.add_columns(route.packs[task], columns, input_.pack.trace_context)
        emission = Emission(codec, batch, deliveries)
        if self.hooks:
            for values, tasks in emission.tuples():
                for hook in self.hooks:
                    hook.emit(EmitInfo(values, stream, tasks))
        return emission

    def acked(self, input_: ArrowInput, rows: Rows) -> None:
        input_.settled[rows] = True
        roots, edges, counts = input_.anchors(rows)
        outs = input_.out[rows]
        if counts is not None:
            outs = np.repeat(outs, counts)
        if self.acks is not None:
            self.acks.ack_columns(roots, edges ^ outs)
        self.collector.settled(input_.pack, len(rows))
        if self.hooks:
            for tuple_ in input_.tuples(rows):
                for hook in self.hooks:
                    hook.bolt_ack(tuple_)

    def _joined(self, input_: ArrowInput, anchors: Rows, size: int) -> tuple[IdColumn, Any]:
        """Root and new edge of each anchor of a delivery's rows, and how many anchors each row has.

        The edges are XORed into the `out` of their inputs.
        """
        if not len(anchors):
            return np.empty(0, np.uint64), np.zeros(size, np.intp)
        edges = random_column(size, self._entropy)
        np.bitwise_xor.at(input_.out, anchors, edges)
        roots, _, counts = input_.anchors(anchors)
        ids = np.empty(2 * len(roots), np.uint64)
        ids[::2] = roots
        ids[1::2] = edges if counts is None else np.repeat(edges, counts)
        return ids, counts


class ArrowCollector:
    """What an `ArrowBolt` emits, acks and fails through, for the rows of one call; it may be kept."""

    __slots__ = ("_began", "_input", "_output")

    def __init__(self, output: ColumnOutput, input_: ArrowInput) -> None:
        self._output = output
        self._input = input_
        self._began = output.clock()

    def emit(self, data: Any, *, anchors: Any = None, stream: str = DEFAULT_STREAM) -> None:
        """Sends a tuple for each row to every subscriber of a stream.

        Args:
            data: a table with a column for each field of the stream: a `pyarrow.RecordBatch` or `Table`, a data frame
                of Polars or pandas, or columns by name. Values are cast where that loses nothing.
            anchors: for each row, the row of the call's batch whose trees it joins, integers of shape `(n,)`; `()` for
                untracked tuples. Left out, rows are anchored one to one.
            stream: one of the component's streams.

        Raises:
            EmitError: if the stream is unknown or direct, or rows do not fit it or their anchors; nothing was sent
                then.
            TupleAlreadyDoneError: if an anchor was acked or failed before; nothing was sent then, and its trees fail
                unless they were acked already.
        """
        input_, output = self._input, self._output
        rows: Rows | None = None
        if anchors is None:
            rows = np.arange(len(input_))
        elif not (isinstance(anchors, tuple) and not anchors):
            try:
                rows = row_numbers(anchors, len(input_))
            except ValueError as error:
                raise EmitError(output.component, stream, (), f"anchors are wrong: {error}") from error
        if rows is not None and input_.settled[rows].any():
            # The trees fail, because these children are missing in them.
            late = [output.collector.late_emit(each) for each in input_.tuples(np.unique(rows[input_.settled[rows]]))]
            raise late[0]
        output.emit(input_, data, rows, stream)

    def ack(self, rows: Any = None) -> None:
        """Acks rows: they were processed.

        Args:
            rows: positions in the call's batch, or a mask; all that are neither acked nor failed, unless given.

        Raises:
            TupleAlreadyDoneError: if one was acked or failed before; none is acked then.
        """
        places = self._open(rows, "ack")
        if len(places):
            self._output.acked(self._input, places)
            self._output.counters.process_latency.record(self._output.clock() - self._began)

    def fail(self, message: str | BaseException = "", rows: Any = None) -> None:
        """Fails the trees of rows that could not be processed, with the message.

        Args:
            message: why, for people.
            rows: as for `ack`.

        Raises:
            TupleAlreadyDoneError: if one was acked or failed before; none is failed then.
        """
        places = self._open(rows, "fail")
        failed = self._input.tuples(places)
        self._input.settled[places] = True
        for tuple_ in failed:
            self._output.collector.fail(tuple_, message)

    def reset_timeout(self) -> None:
        """Restarts the clock of the trees of rows that are neither acked nor failed: they are still being worked on."""
        for tuple_ in self._input.tuples(self._input.open_rows()):
            self._output.collector.reset_timeout(tuple_)

    def report_error(self, error: BaseException) -> None:
        """Reports an error after which the task goes on: it is logged, counted and shown in the stats."""
        self._output.collector.report_error(error)

    @property
    def metrics(self) -> Counters:
        """What the tasks of this process have done; it lives, so read it and leave it."""
        return self._output.counters

    def _open(self, rows: Any, action: str) -> Rows:
        input_ = self._input
        if rows is None:
            return input_.open_rows()
        places = np.unique(row_numbers(rows, len(input_)))
        if input_.settled[places].any():
            raise input_.pack.already_done(action)
        return places


def pack_codec(component: str, stream: Stream) -> PackCodec:
    """The codec of a stream of packs; raises `TopologyError` for a stream of another codec."""
    codec = payload_codec(stream)
    if not isinstance(codec, PackCodec):
        raise TopologyError(
            f"an ArrowBolt takes and emits streams of codec arrow, and stream {stream.name!r} of {component!r} has "
            f"codec {stream.codec!r}: leave codec= out in declare(), or use a BatchBolt"
        )
    return codec

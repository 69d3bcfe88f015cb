"""Reads what the step before has emitted in the same task, as `TupleReader` reads the records of an inbox."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

import numpy as np

from spout_sdk.api.tuples import InputPack, InputStream
from spout_sdk.bolts.input_rows import ArrowInput, InputRows
from spout_sdk.bolts.operator import Operator
from spout_sdk.bolts.settlement import Settlement
from spout_sdk.emitting.open_pack import OpenPack, PlacedRows
from spout_sdk.emitting.task import Task
from spout_sdk.records import ChainedRecord
from tuple_tree.anchors import SOURCE_HEADER
from tuple_tree.chained_batch import ChainedBatch
from tuple_tree.components import BoltManifest
from tuple_tree.errors import WireError
from tuple_tree.identities import source_hash
from tuple_tree.input_batch import InputBatch
from tuple_tree.names import chain_of
from tuple_tree.payloads import LocalCodec, ObjectCodec, decode_tuples, payload_codec
from tuple_tree.streams import Values


class ChainReader:
    """Makes the inputs of a step, which are numbered: they have no offsets in a topic.

    Args:
        root: the component that the task belongs to.
        settlement: of the step; settles tuples that cannot be read.
        operator: of the step.
    """

    def __init__(self, task: Task, bolt: BoltManifest, root: str, settlement: Settlement, operator: Operator) -> None:
        manifest = task.topology.manifest
        (subscription,) = bolt.subscriptions
        stream = manifest.stream(subscription.source, subscription.stream)
        self._codec: Any = payload_codec(stream)
        self._stream = InputStream(subscription.source, stream.name, stream.field_names, self._codec)
        source = f"{subscription.source}/{stream.name}".encode()
        self._source, self._hash = (SOURCE_HEADER, source), source_hash(source)
        self._topic, self._task = chain_of(root), task.context.task
        self._outbox, self._wall_ms = task.outbox, task.environment.wall_ms
        self._settlement = settlement
        self._is_columns, self._takes_rows = operator.takes_columns, operator.takes_rows
        self._numbers = count()

    def read(self, pack: OpenPack) -> InputRows | ArrowInput:
        """Removes the tuples of a pack, and opens them as inputs; unreadable ones are rejected and left out."""
        placed = pack.take_rows()
        try:
            opened = self._opened(pack, placed)
        except BaseException:  # out of memory: trees that lack these tuples must not complete
            self._outbox.keep_open((batch, place) for batch, places in placed.runs for place in places.tolist())
            raise
        self._settlement.received(opened)
        pack.counters.transferred += opened.size
        rows, errors = placed.rows, dict[int, WireError]()
        # Rows of an `ObjectCodec` are objects, unless they were emitted as columns.
        values_of = pack.codec.values_of if isinstance(pack.codec, ObjectCodec) and isinstance(rows, list) else None
        if values_of is not None and not self._takes_rows:
            rows, values_of = _each(rows, values_of, errors), None
        # The rows of a stream that other bolts receive through Kafka are encoded.
        if not isinstance(pack.codec, LocalCodec) and isinstance(rows, list):
            rows, errors = self._decoded(rows)
        read: InputRows | ArrowInput
        values = rows
        if self._is_columns:
            read = self._columns(opened, rows, errors)
        else:
            if not isinstance(rows, list):
                values, found = self._codec.readable(rows)
                errors |= found
            read = InputRows.of(values, opened, errors, values_of)
        for index, error in errors.items():
            self._settlement.reject(opened.tuple_at(index, values[index] if isinstance(values, list) else ()), error)
        return read

    def _opened(self, pack: OpenPack, placed: PlacedRows) -> InputPack:
        batch: InputBatch
        if placed.runs:
            identities = placed.identities
            if identities is not None:
                identities = identities.received(self._hash)
                if placed.counts is not None:
                    identities = identities.spread(placed.counts)
            batch = ChainedBatch(placed.runs, pack.trace_context, identities)
        else:
            batch = InputBatch(pack.trace_context, is_tracked=False)
        made = ChainedRecord(
            *(self._topic, self._task, next(self._numbers)),
            headers_=[self._source],
            timestamp_=(1, self._wall_ms()),
        )
        return InputPack(made, self._stream, made.offset_, len(placed.rows), batch, 0, placed.starts)

    def _columns(self, pack: InputPack, rows: Any, errors: dict[int, WireError]) -> ArrowInput:
        """The rows of a pack as columns, without those in `errors`; adds an error for each row that does not fit."""
        codec = self._codec
        if not isinstance(rows, list):
            return ArrowInput.of(rows, pack, codec)
        if errors or not all(map(codec.is_row, rows)):
            rows = _each(rows, lambda row: row if codec.is_row(row) else codec.row(row), errors)
        fit = [index for index in range(pack.size) if index not in errors]
        return ArrowInput(codec.columns([rows[index] for index in fit]), pack, codec, np.array(fit, np.intp))

    def _decoded(self, rows: list[Any]) -> tuple[Any, dict[int, WireError]]:
        """Encoded rows as Kafka would deliver them: a record batch, or values; and errors by row index."""
        codec = self._codec
        if codec.max_rows > 1:
            with suppress(Exception):
                return codec.decode_batch(codec.encode(rows)), {}
        errors: dict[int, WireError] = {}
        return _each(rows, lambda row: decode_tuples(codec, codec.encode([row]))[0], errors), errors


def _each(rows: Sequence[Any], made: Callable[[Any], Values], errors: dict[int, WireError]) -> list[Values]:
    """Calls a function with each row, and returns the results; an error is added to `errors`, and its result is ()."""
    found: list[Values] = []
    for index, row in enumerate(rows):
        try:
            found.append(() if index in errors else made(row))
        except Exception as error:  # noqa: BLE001 - of any codec
            errors[index] = error if isinstance(error, WireError) else WireError("bad-payload", str(error))
            found.append(())
    return found

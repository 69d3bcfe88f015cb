"""Write 1, its beginning: records of an inbox into the rows that `transform` receives. Runs on executors."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_jobs.errors import SparkJobError
from spark_jobs.records_in import InboxDecoder, RowsIn, Sources, records_of
from spark_jobs.tracking import SOURCE, TRACKING
from tuple_tree.anchor_columns import AnchorColumns
from tuple_tree.errors import WireError
from tuple_tree.ids import ID_BYTES, pack_ids, unpack_ids

_ROWS: Final = 10_000
"""Rows that are handed to Spark together, about."""


@dataclass(frozen=True)
class Unpack:
    """Makes rows of records; for `mapInArrow`.

    Attributes:
        sources: of the bolt.
    """

    sources: Sources

    @property
    def schema(self) -> Any:
        """The fields of all streams, by name, `_source` and `_tracking`."""
        fields = {field.name: field for frame in self.sources.streams.values() for field in frame.schema}
        return pa.schema([*fields.values(), pa.field(SOURCE, pa.string()), pa.field(TRACKING, pa.binary())])

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Unpacks batches of records with the columns `value` and `headers`; what cannot be used is left out."""
        decoder, schema = InboxDecoder(self.sources), self.schema
        made: list[Any] = []
        rows = 0
        for batch in batches:
            for record in records_of(batch):
                try:
                    found = decoder.rows(record)
                except WireError:
                    continue  # `InputAcks` makes a dead letter of it
                made.append(_framed(found, schema))
                rows += found.columns.num_rows
                if rows >= _ROWS:
                    yield pa.concat_batches(made)
                    made, rows = [], 0
        if made:
            yield pa.concat_batches(made)


def _framed(found: RowsIn, schema: Any) -> Any:
    size = found.columns.num_rows
    names = found.columns.schema.names
    columns = [
        found.columns.column(field.name) if field.name in names else pa.nulls(size, field.type)
        for field in list(schema)[:-2]
    ]
    whole = pa.record_batch([*columns, pa.repeat(found.source, size), tracking_of(found.anchors)], schema=schema)
    if not found.errors:
        return whole
    return whole.take(pa.array([row for row in range(size) if row not in found.errors], pa.int64()))


def tracking_of(anchors: AnchorColumns) -> Any:
    """The `_tracking` of tuples: the roots of each, big-endian."""
    rows = len(anchors.roots) if anchors.starts is None else len(anchors.starts) - 1
    starts = np.arange(rows + 1) if anchors.starts is None else anchors.starts
    offsets = (ID_BYTES * starts).astype(np.int32)
    return pa.Array.from_buffers(
        pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(pack_ids(anchors.roots))]
    )


def roots_of(tracking: Any) -> AnchorColumns:
    """The roots of rows, each once, of their `_tracking`, with edges of zero; null is a row without roots.

    Raises:
        SparkJobError: if a value is not of `tracking_of` or `merge_tracking`.
    """
    column = tracking.cast(pa.binary())
    if column.null_count:
        column = column.fill_null(b"")
    _, offsets, values = column.buffers()
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1] if len(column) else [0]
    sizes = np.diff(ends)
    if (sizes % ID_BYTES).any():
        raise SparkJobError(f"{TRACKING} has values that are no roots: keep that column as it is")
    counts = sizes // ID_BYTES
    roots = unpack_ids(values[ends[0] : ends[-1]]).astype(np.uint64) if values else np.empty(0, np.uint64)
    if (counts == 1).all():
        return AnchorColumns(roots, np.zeros(len(roots), np.uint64), None)
    # An edge that is added to a tree twice cancels, so a root that was merged twice must stand once.
    rows = np.repeat(np.arange(len(counts)), counts)
    order = np.lexsort((roots, rows))
    rows, roots = rows[order], roots[order]
    first = np.ones(len(rows), np.bool_)
    first[1:] = (rows[1:] != rows[:-1]) | (roots[1:] != roots[:-1])
    starts = np.concatenate(([0], np.cumsum(np.bincount(rows[first], minlength=len(counts))))).astype(np.intp)
    return AnchorColumns(roots[first], np.zeros(int(first.sum()), np.uint64), starts)

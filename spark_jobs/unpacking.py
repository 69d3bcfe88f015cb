"""Write 1, its beginning: records of an inbox into the rows that `transform` receives. Runs on executors."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.records_in import InboxDecoder, RowsIn, Sources, records_of
from spark_jobs.tracking import SOURCE, TRACKING
from tuple_tree.anchor_columns import AnchorColumns
from tuple_tree.errors import WireError

_ROWS: Final = 10_000
"""Rows that are handed to Spark together, about."""

TRACKING_ARROW: Final = pa.struct([("root", pa.int64()), ("roots", pa.list_(pa.int64()))])


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
        return pa.schema([*fields.values(), pa.field(SOURCE, pa.string()), pa.field(TRACKING, TRACKING_ARROW)])

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
    """The `_tracking` of tuples: `root` if there is one, `roots` if there are several, neither if there is none."""
    if anchors.starts is None:
        root = pa.array(anchors.roots.view(np.int64))
        roots = pa.nulls(len(root), TRACKING_ARROW.field("roots").type)
        return pa.StructArray.from_arrays([root, roots], fields=list(TRACKING_ARROW))
    every = anchors.roots.view(np.int64).tolist()
    each = [every[begin:end] for begin, end in pairwise(anchors.starts.tolist())]
    root = pa.array([roots[0] if len(roots) == 1 else None for roots in each], pa.int64())
    several = pa.array([roots if len(roots) > 1 else None for roots in each], TRACKING_ARROW.field("roots").type)
    return pa.StructArray.from_arrays([root, several], fields=list(TRACKING_ARROW))


def roots_of(tracking: Any) -> AnchorColumns:
    """The roots of rows, of their `_tracking`, with edges of zero; the inverse of `tracking_of`."""
    root, roots = pc.struct_field(tracking, 0), pc.struct_field(tracking, 1)
    if not root.null_count:
        ids = root.to_numpy().view(np.uint64)
        return AnchorColumns(ids, np.zeros(len(ids), np.uint64), None)
    each = [
        [one] if one is not None else several or []
        for one, several in zip(root.to_pylist(), roots.to_pylist(), strict=True)
    ]
    flat = np.array([root for several in each for root in several], np.int64).view(np.uint64)
    return AnchorColumns(
        flat, np.zeros(len(flat), np.uint64), np.concatenate(([0], np.cumsum(list(map(len, each))))).astype(np.intp)
    )

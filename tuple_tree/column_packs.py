"""Tuples on their way into packs, as columns."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tuple_tree.ids import IdColumn


class Columns(NamedTuple):
    """Tuples of one stream for one task, as columns.

    Attributes:
        ids: shape `(2 * anchors,)`: root and edge, in turn, of each anchor of each row.
        counts: shape `(n,)`: how many anchors each row has; None if each has one.
    """

    rows: Any
    ids: IdColumn
    counts: NDArray[np.intp] | None

    def part(self, begin: int, end: int) -> "Columns":
        counts = self.counts
        if counts is None:
            return Columns(self.rows[begin:end], self.ids[2 * begin : 2 * end], None)
        first, last = 2 * int(counts[:begin].sum()), 2 * int(counts[:end].sum())
        return Columns(self.rows[begin:end], self.ids[first:last], counts[begin:end])


def concatenated(several: Sequence[Columns]) -> Columns:
    if len(several) == 1:
        return several[0]
    rows = pa.concat_batches([each.rows for each in several])
    ids = np.concatenate([each.ids for each in several])
    if all(each.counts is None for each in several):
        return Columns(rows, ids, None)
    counts = [np.ones(len(each.rows), np.intp) if each.counts is None else each.counts for each in several]
    return Columns(rows, ids, np.concatenate(counts))

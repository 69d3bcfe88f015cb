"""Tuples and their anchors as columns; the rules are those of `anchors`."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tuple_tree.anchors import PAIR_BYTES, edges_of_tuples
from tuple_tree.errors import WireError
from tuple_tree.ids import IdColumn, unpack_ids

Rows = NDArray[np.intp]  # shape `(k,)`: positions of rows


class AnchorColumns(NamedTuple):
    """Root and edge of each anchor of each tuple, in order."""

    roots: IdColumn  # shape `(anchors,)`, dtype `u8`, as are the edges
    edges: IdColumn
    starts: Rows | None  # shape `(n + 1,)`: where the anchors of each tuple begin; None if each has one

    @classmethod
    def read(cls, anchors: bytes | None, counts: bytes | None, tuples: int) -> "AnchorColumns":
        """Those of a record with so many tuples; a root that stands twice in a tuple is XORed together.

        Raises `WireError` if the headers do not go together, or with the number of tuples.
        """
        if not anchors and not (counts and any(counts)):
            return cls.none(tuples)
        anchors = anchors or b""
        if counts is None and len(anchors) == PAIR_BYTES * tuples:
            ids = unpack_ids(anchors).astype(np.uint64)
            return cls(ids[::2], ids[1::2], None)
        each = edges_of_tuples(anchors, counts)
        if len(each) != tuples:
            raise WireError(
                "ragged-anchors", f"the headers have anchors for {len(each)} tuples, and there are {tuples}"
            )
        roots = np.array([root for edges in each for root in edges], np.uint64)
        flat = np.array([edge for edges in each for edge in edges.values()], np.uint64)
        return cls(roots, flat, np.concatenate(([0], np.cumsum([len(edges) for edges in each]))))

    @classmethod
    def none(cls, tuples: int) -> "AnchorColumns":
        nothing = np.empty(0, np.uint64)
        return cls(nothing, nothing, np.zeros(tuples + 1, np.intp))

    def part(self, begin: int, end: int) -> "AnchorColumns":
        if self.starts is None:
            return AnchorColumns(self.roots[begin:end], self.edges[begin:end], None)
        starts = self.starts[begin : end + 1]
        anchors = slice(starts[0], starts[-1])
        return AnchorColumns(self.roots[anchors], self.edges[anchors], starts - starts[0])

    def take(self, rows: Rows) -> tuple[IdColumn, IdColumn, Rows | None]:
        """Roots and edges of the anchors of some tuples, and how many each of them has; None if each has one."""
        if self.starts is None:
            return self.roots[rows], self.edges[rows], None
        begins = self.starts[rows]
        counts = self.starts[rows + 1] - begins
        # Positions of the anchors: from each tuple's first, so many.
        before = np.cumsum(counts) - counts
        places = np.arange(counts.sum()) + np.repeat(begins - before, counts)
        return self.roots[places], self.edges[places], counts


class Columns(NamedTuple):
    """Tuples of one stream for one task, as columns."""

    rows: Any
    ids: IdColumn  # shape `(2 * anchors,)`: root and edge, in turn, of each anchor of each row
    counts: Rows | None  # shape `(n,)`: how many anchors each row has; None if each has one

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

"""The rows of a pack, as an `ArrowBolt` receives them, and what their trees are told of each."""

from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from spout_sdk.column_groupings import Rows
from spout_sdk.tuples import InputPack, Tuple
from tuple_tree.anchors import PAIR_BYTES, Edges, edges_of_tuples
from tuple_tree.errors import WireError
from tuple_tree.ids import IdColumn, unpack_ids
from tuple_tree.packs import PackCodec

_ONE_EACH: Final = None


class ArrowInput:
    """Rows that follow each other in a record; a slice of it shares everything with the whole.

    Args:
        batch: a record batch, one row a tuple.
        pack: of the record.
        codec: of the stream.
        first: which of the record's tuples the first row is.
        roots, edges: of each anchor of each row, in order.
        starts: shape `(n + 1,)`: where the anchors of each row begin; None if each has one.

    Attributes:
        batch: as given.
        out: shape `(n,)`: XOR of the edge ids of everything emitted anchored to a row.
        settled: shape `(n,)`: whether it was acked or failed.
    """

    __slots__ = ("_edges", "_first", "_roots", "_starts", "batch", "codec", "out", "pack", "settled")

    def __init__(
        self,
        batch: Any,
        pack: InputPack,
        codec: PackCodec,
        roots: IdColumn,
        edges: IdColumn,
        starts: Rows | None,
        first: int = 0,
        out: IdColumn | None = None,
        settled: NDArray[np.bool_] | None = None,
    ) -> None:
        self.batch = batch
        self.pack = pack
        self.codec = codec
        self._roots = roots
        self._edges = edges
        self._starts = starts
        self._first = first
        self.out = np.zeros(batch.num_rows, np.uint64) if out is None else out
        self.settled = np.zeros(batch.num_rows, np.bool_) if settled is None else settled

    @classmethod
    def read(cls, batch: Any, pack: InputPack, codec: PackCodec, anchors: bytes | None, counts: bytes | None) -> Self:
        """The rows of a record.

        Raises:
            WireError: if the headers do not go together, or with the batch.
        """
        rows = batch.num_rows
        if not anchors and not (counts and any(counts)):
            nothing = np.empty(0, np.uint64)
            return cls(batch, pack, codec, nothing, nothing, np.zeros(rows + 1, np.intp))
        anchors = anchors or b""
        if counts is None and len(anchors) == PAIR_BYTES * rows:
            ids = unpack_ids(anchors).astype(np.uint64)
            return cls(batch, pack, codec, ids[::2], ids[1::2], _ONE_EACH)
        each = edges_of_tuples(anchors, counts)
        if len(each) != rows:
            raise WireError("ragged-anchors", f"the headers have anchors for {len(each)} tuples, and there are {rows}")
        roots = np.array([root for edges in each for root in edges], np.uint64)
        flat = np.array([edge for edges in each for edge in edges.values()], np.uint64)
        starts = np.concatenate(([0], np.cumsum([len(edges) for edges in each])))
        return cls(batch, pack, codec, roots, flat, starts)

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def __getitem__(self, rows: slice) -> "ArrowInput":
        begin, end, _ = rows.indices(len(self))
        anchors = slice(begin, end) if self._starts is None else slice(self._starts[begin], self._starts[end])
        starts = None if self._starts is None else self._starts[begin : end + 1] - self._starts[begin]
        return ArrowInput(
            self.batch.slice(begin, end - begin),
            self.pack,
            self.codec,
            self._roots[anchors],
            self._edges[anchors],
            starts,
            self._first + begin,
            self.out[begin:end],
            self.settled[begin:end],
        )

    def anchors(self, rows: Rows) -> tuple[IdColumn, IdColumn, Rows | None]:
        """Roots and edges of the anchors of some rows, and how many each row has; None if each has one."""
        if self._starts is None:
            return self._roots[rows], self._edges[rows], None
        begins = self._starts[rows]
        counts = self._starts[rows + 1] - begins
        # Positions of the anchors: from each row's first, so many.
        before = np.cumsum(counts) - counts
        places = np.arange(counts.sum()) + np.repeat(begins - before, counts)
        return self._roots[places], self._edges[places], counts

    def open_rows(self) -> Rows:
        """The rows that were neither acked nor failed."""
        return np.flatnonzero(~self.settled)

    def tuples(self, rows: Rows) -> list[Tuple]:
        """Some rows as tuples, with the ids of what was emitted anchored to them."""
        found, _ = self.codec.readable(self.batch.take(rows))
        made = []
        for values, row in zip(found, rows.tolist(), strict=True):
            edges = self._edges_of(row)
            (root, edge), many = (next(iter(edges.items())), None) if len(edges) == 1 else ((None, 0), edges or None)
            tuple_ = Tuple(values, root, edge, many, self.pack, self._first + row)
            tuple_.out = int(self.out[row])
            tuple_.settled = bool(self.settled[row])
            made.append(tuple_)
        return made

    def taken_over(self) -> list[Tuple]:
        """All rows as tuples, which say from now on whether they are settled: here, all are."""
        made = self.tuples(np.arange(len(self)))
        self.settled[:] = True
        return made

    def _edges_of(self, row: int) -> Edges:
        roots, edges, _ = self.anchors(np.array([row]))
        return dict(zip(roots.tolist(), edges.tolist(), strict=True))


def row_numbers(rows: Any, size: int) -> Rows:
    """Positions of rows, of integers or a mask.

    Args:
        rows: anything that numpy makes an array of: integers in `[0, size)`, or `size` booleans.
        size: how many rows there are.

    Raises:
        ValueError: if they are neither.
    """
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

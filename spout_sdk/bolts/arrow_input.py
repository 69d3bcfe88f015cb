"""The rows of a pack with their anchors, as an `ArrowBolt` receives them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spout_sdk.api.tuples import InputPack, Tuple
from tuple_tree.anchors import AnchorColumns, Rows
from tuple_tree.ids import IdColumn
from tuple_tree.payloads import PackCodec


class ArrowInput:
    """Rows that follow each other in a record; a slice of it shares everything with the whole.

    Args:
        batch: a record batch, one row a tuple.
        first: index of the first row among the record's tuples.
        out: shape `(n,)`: XOR of the edge ids of everything emitted anchored to a row.
        settled: shape `(n,)`: whether it was acked or failed.
    """

    __slots__ = ("_anchors", "_first", "anchors", "batch", "codec", "out", "pack", "settled")

    def __init__(
        self,
        batch: Any,
        pack: InputPack,
        codec: PackCodec,
        anchors: AnchorColumns,
        first: int = 0,
        out: IdColumn | None = None,
        settled: NDArray[np.bool_] | None = None,
    ) -> None:
        self.batch = batch
        self.pack = pack
        self.codec = codec
        self._anchors = anchors
        self.anchors = anchors.take
        self._first = first
        self.out = np.zeros(batch.num_rows, np.uint64) if out is None else out
        self.settled = np.zeros(batch.num_rows, np.bool_) if settled is None else settled

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def __getitem__(self, rows: slice) -> "ArrowInput":
        begin, end, _ = rows.indices(len(self))
        return ArrowInput(
            self.batch.slice(begin, end - begin),
            self.pack,
            self.codec,
            self._anchors.part(begin, end),
            self._first + begin,
            self.out[begin:end],
            self.settled[begin:end],
        )

    def open_rows(self) -> Rows:
        """Those that were neither acked nor failed."""
        return np.flatnonzero(~self.settled)

    def tuples(self, rows: Rows) -> list[Tuple]:
        """Some rows as tuples, with the ids of what was emitted anchored to them."""
        made = []
        for values, row in zip(self.codec.readable(self.batch.take(rows))[0], rows.tolist(), strict=True):
            roots, ids, _ = self.anchors(np.array([row]))
            edges = dict(zip(roots.tolist(), ids.tolist(), strict=True))
            (root, edge), many = (next(iter(edges.items())), None) if len(edges) == 1 else ((None, 0), edges or None)
            tuple_ = Tuple(values, root, edge, many, self.pack, self._first + row)
            tuple_.out = int(self.out[row])
            tuple_.settled = bool(self.settled[row])
            made.append(tuple_)
        return made

    def taken_over(self) -> list[Tuple]:
        """All rows as tuples, which take over their state: here, all are settled from now on."""
        made = self.tuples(np.arange(len(self)))
        self.settled[:] = True
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

"""Anchoring: how a tuple joins the trees of the tuples that it was made from, and the headers that carry it.

Every tuple has, for each root that it belongs to, the edge id under which it was delivered (`edges`), and the XOR of
the edges of its children (`out`). Acking it sends `edge ^ out` for each root: the ack takes its own edge out of the
checksum and puts its children's in, in one message. `AnchorColumns` and `Columns` have many tuples as columns.
"""

import struct
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tuple_tree.errors import WireError
from tuple_tree.ids import IdColumn, unpack_ids

ANCHORS_HEADER: Final = "anchors"
ANCHOR_COUNTS_HEADER: Final = "anchor-counts"
SOURCE_HEADER: Final = "source"
PAIR_BYTES: Final = 16
Edges = dict[int, int]  # root id → edge id
_one_pair: Final = struct.Struct(">QQ")


class Anchor(Protocol):
    """A tuple that children are anchored to: `edges` is root id → edge id of its delivery."""

    out: int

    @property
    def edges(self) -> Edges: ...


def new_child(anchors: Iterable[Anchor], next_edge: Callable[[], int]) -> Edges:
    """Makes the `edges` of one delivery of one child, and adds them to its anchors; empty if no anchor is tracked.

    For each anchor one fresh edge, which joins the child to every root of that anchor. Anchors that share a root, or
    the same anchor twice, are XORed together, so the tree still completes.
    """
    edges: Edges = {}
    for anchor in anchors:
        if not anchor.edges:
            continue
        edge = next_edge()
        anchor.out ^= edge
        for root in anchor.edges:
            edges[root] = edges.get(root, 0) ^ edge
    return edges


def ack_vals(anchor: Anchor) -> list[tuple[int, int]]:
    """The entries of an ack of this tuple: `(root, ack val)` for each of its roots."""
    out = anchor.out
    return [(root, edge ^ out) for root, edge in anchor.edges.items()]


def pack_anchors(edges: Edges) -> bytes:
    """The value of the `anchors` header: `16 * len(edges)` bytes."""
    return b"".join(_one_pair.pack(root, edge) for root, edge in edges.items())


def unpack_anchors(header: bytes) -> Edges:
    """Reads the `anchors` header; a root that stands twice is XORed together.

    Raises `WireError` if the length is no multiple of 16.
    """
    if len(header) == PAIR_BYTES:
        root, edge = _one_pair.unpack(header)
        return {root: edge}
    if len(header) % PAIR_BYTES:
        raise _ragged(header)
    edges: Edges = {}
    for root, edge in _one_pair.iter_unpack(header):
        edges[root] = edges.get(root, 0) ^ edge
    return edges


def _ragged(anchors: bytes) -> WireError:
    return WireError(
        "ragged-anchors", f"the anchors header has {len(anchors)} bytes, which is no multiple of {PAIR_BYTES}"
    )


def pack_counts(counts: Sequence[int]) -> bytes:
    """The value of the `anchor-counts` header: `2 * len(counts)` bytes."""
    return struct.pack(f">{len(counts)}H", *counts)


def anchor_headers(edges: Sequence[Edges]) -> list[tuple[str, str | bytes | None]]:
    """The headers `anchors` and `anchor-counts` of a record with these tuples, as far as it has them."""
    if not any(edges):
        return []
    headers: list[tuple[str, str | bytes | None]] = [(ANCHORS_HEADER, b"".join(map(pack_anchors, edges)))]
    if any(len(each) != 1 for each in edges):
        headers.append((ANCHOR_COUNTS_HEADER, pack_counts([len(each) for each in edges])))
    return headers


def edges_of_tuples(anchors: bytes, counts: bytes | None) -> list[Edges]:
    """The `edges` of each tuple of a record, by its headers; a root that stands twice in a tuple is XORed together.

    Raises `WireError` if the headers do not go together.
    """
    pairs, odd = divmod(len(anchors), PAIR_BYTES)
    if odd:
        raise _ragged(anchors)
    if counts is None:
        return [unpack_anchors(anchors[at : at + PAIR_BYTES]) for at in range(0, len(anchors), PAIR_BYTES)]
    if len(counts) % 2:
        raise WireError("ragged-anchors", f"the anchor-counts header has {len(counts)} bytes, which is an odd number")
    each = struct.unpack(f">{len(counts) // 2}H", counts)
    if sum(each) != pairs:
        raise WireError("ragged-anchors", f"the anchors header has {pairs} pairs, and the counts add up to {sum(each)}")
    ends = [PAIR_BYTES * count for count in accumulate(each, initial=0)]
    return [unpack_anchors(anchors[begin:end]) for begin, end in pairwise(ends)]


Rows = NDArray[np.intp]  # shape `(k,)`: positions of rows


class AnchorColumns(NamedTuple):
    """Root and edge of each anchor of each tuple, in order."""

    roots: IdColumn  # shape `(anchors,)`, dtype `u8`, as are the edges
    edges: IdColumn
    starts: Rows | None  # shape `(n + 1,)`: where the anchors of each tuple begin; None if each has one

    @classmethod
    def read(cls, anchors: bytes | None, counts: bytes | None, tuples: int) -> "AnchorColumns":
        """Reads the anchors of a record with `tuples` tuples; the edges of a root that a tuple has twice are XORed.

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
        # Positions of the anchors: `counts` consecutive ones from the first of each tuple.
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

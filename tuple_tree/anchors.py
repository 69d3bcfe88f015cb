"""Anchors: the trees that the tuples of a record belong to, as columns, and the headers that carry them.

A tuple is delivered under one edge, in all its trees. It follows from a seed in the header and from the number of the
tuple (`tuple_tree.edges`).
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tuple_tree.edges import edge_column
from tuple_tree.errors import WireError
from tuple_tree.identities import IDENTITIES_HEADER, IdentityColumns
from tuple_tree.ids import ID_BYTES, NO_IDS, IdColumn, pack_ids, unpack_ids

ANCHORS_HEADER: Final = "anchors"
ANCHOR_COUNTS_HEADER: Final = "anchor-counts"
SOURCE_HEADER: Final = "source"
OF_TUPLES: Final = (ANCHORS_HEADER, ANCHOR_COUNTS_HEADER, IDENTITIES_HEADER)
"""The headers that have columns for the tuples of a record."""

HEAD: Final = struct.Struct(">QI")
"""The start of the `anchors` header: seed, and number of the first edge."""

Edges = dict[int, int]  # root id → edge id, of one tuple
_COUNT: Final = np.dtype(">u2")
_MOST: Final = 2**16 - 1  # anchors of a tuple
Rows = NDArray[np.intp]  # shape `(k,)`: positions of rows


@dataclass(frozen=True, slots=True)
class RootColumns:
    """The roots of each tuple of several, in order.

    Attributes:
        roots: shape `(anchors,)`, dtype `u8`.
        starts: shape `(n + 1,)`: where the roots of each tuple begin; None if each has one.
    """

    roots: IdColumn
    starts: Rows | None

    @property
    def tuples(self) -> int:
        return len(self.roots) if self.starts is None else len(self.starts) - 1

    @property
    def counts(self) -> Rows:
        return np.ones(len(self.roots), np.intp) if self.starts is None else np.diff(self.starts)

    def spread(self, column: IdColumn) -> IdColumn:
        """For each root, what a column has for its tuple."""
        return column if self.starts is None else np.repeat(column, self.counts)

    def take(self, rows: Rows) -> "RootColumns":
        if self.starts is None:
            return RootColumns(self.roots[rows], None)
        begins = self.starts[rows]
        counts = self.starts[rows + 1] - begins
        ends = np.cumsum(counts)
        # Positions of the roots: `counts` consecutive ones from the first of each tuple.
        places = np.arange(counts.sum()) + np.repeat(begins - ends + counts, counts)
        return RootColumns(self.roots[places], np.concatenate(([0], ends)))


def concatenated(several: Sequence[RootColumns]) -> RootColumns:
    if len(several) == 1:
        return several[0]
    roots = np.concatenate([each.roots for each in several])
    if all(each.starts is None for each in several):
        return RootColumns(roots, None)
    return RootColumns(roots, np.concatenate(([0], np.cumsum(np.concatenate([each.counts for each in several])))))


@dataclass(frozen=True, slots=True)
class AnchorColumns(RootColumns):
    """The roots of each tuple of a record, and the edge under which it is delivered.

    Attributes:
        seed: of the edges.
        first: number of the first tuple's edge; those of the others follow.
    """

    seed: int = 0
    first: int = 0

    @classmethod
    def none(cls, tuples: int) -> "AnchorColumns":
        return cls(NO_IDS, np.zeros(tuples + 1, np.intp))

    @classmethod
    def read(cls, anchors: bytes | None, counts: bytes | None, tuples: int | None = None) -> "AnchorColumns":
        """Reads the headers of a record with `tuples` tuples; by default, of as many as they have anchors for.

        Raises `WireError` if they do not go together, or with the number of tuples, or a tuple has a root twice.
        """
        seed, first, roots = _parts(anchors) if anchors else (0, 0, NO_IDS)
        if counts:
            starts = _starts(counts)
            if starts[-1] != len(roots):
                raise _ragged(f"the anchors header has {len(roots)} roots, and the counts add up to {starts[-1]}")
            _check_distinct(roots, starts)
            made = cls(roots, starts, seed, first)
        elif anchors or not tuples:
            made = cls(roots, None, seed, first)
        else:
            made = cls.none(tuples)
        if tuples is not None and made.tuples != tuples:
            raise _ragged(f"the headers have anchors for {made.tuples} tuples, and there are {tuples}")
        return made

    @property
    def edges(self) -> IdColumn:
        """The edge of each root's tuple: shape `(anchors,)`, dtype `u8`."""
        return self.spread(edge_column(self.seed, self.first, self.tuples)) if len(self.roots) else NO_IDS

    def part(self, begin: int, end: int) -> "AnchorColumns":
        """The anchors of consecutive tuples, under the same edges."""
        first = self.first + begin
        if self.starts is None:
            return AnchorColumns(self.roots[begin:end], None, self.seed, first)
        starts = self.starts[begin : end + 1]
        return AnchorColumns(self.roots[starts[0] : starts[-1]], starts - starts[0], self.seed, first)

    def headers(self) -> list[tuple[str, bytes]]:
        """The headers `anchors` and `anchor-counts` of a record with these tuples, as far as it has them."""
        if not len(self.roots):
            return []
        headers = [(ANCHORS_HEADER, HEAD.pack(self.seed, self.first) + pack_ids(self.roots))]
        if self.starts is not None and ((counts := self.counts) != 1).any():
            if counts.max() > _MOST:
                raise ValueError(
                    f"a tuple has {counts.max():,} anchors, and may have {_MOST:,}: anchor it to fewer tuples"
                )
            headers.append((ANCHOR_COUNTS_HEADER, counts.astype(_COUNT).tobytes()))
        return headers


def readable_roots(anchors: bytes) -> IdColumn:
    """The roots that an `anchors` header has, as far as it can be read: shape `(anchors,)`, dtype `u8`."""
    size = max(0, len(anchors) - HEAD.size) // ID_BYTES * ID_BYTES
    return unpack_ids(anchors[HEAD.size : HEAD.size + size]).astype(np.uint64)


def _parts(anchors: bytes) -> tuple[int, int, IdColumn]:
    """Seed, first number and roots."""
    size = len(anchors) - HEAD.size
    if size < 0 or size % ID_BYTES:
        raise _ragged(
            f"the anchors header has {len(anchors)} bytes, which is not {HEAD.size} and a multiple of {ID_BYTES}"
        )
    return *HEAD.unpack_from(anchors), unpack_ids(anchors[HEAD.size :]).astype(np.uint64)


def _starts(counts: bytes) -> Rows:
    if len(counts) % _COUNT.itemsize:
        raise _ragged(f"the anchor-counts header has {len(counts)} bytes, which is an odd number")
    return np.concatenate(([0], np.cumsum(np.frombuffer(counts, _COUNT), dtype=np.intp)))


def _check_distinct(roots: IdColumn, starts: Rows) -> None:
    counts = np.diff(starts)
    if not len(counts) or counts.max() <= 1:
        return
    of = np.repeat(np.arange(len(counts)), counts)
    order = np.lexsort((roots, of))
    of, roots = of[order], roots[order]
    twice = np.flatnonzero((of[1:] == of[:-1]) & (roots[1:] == roots[:-1]))
    if len(twice):
        at = twice[0]
        raise _ragged(f"the anchors header has root {roots[at]:016x} twice for tuple {of[at]}")


def _ragged(detail: str) -> WireError:
    return WireError("ragged-anchors", detail)


class Columns(NamedTuple):
    """Tuples of one stream for one task, as columns."""

    rows: Any
    anchors: AnchorColumns
    identities: IdentityColumns | None = None  # only on the way to a state

    def part(self, begin: int, end: int) -> "Columns":
        """Consecutive tuples, under the same edges."""
        identities = None if self.identities is None else self.identities.part(begin, end)
        return Columns(self.rows[begin:end], self.anchors.part(begin, end), identities)

    def headers(self) -> list[tuple[str, bytes]]:
        """The headers of a record with these tuples, but for its source and its trace."""
        headers = self.anchors.headers()
        return headers if self.identities is None else headers + self.identities.headers()

"""The tuples in records, for tests that look into topics."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tuple_tree.anchors import ANCHOR_COUNTS_HEADER, ANCHORS_HEADER, AnchorColumns, Edges
from tuple_tree.edges import edge
from tuple_tree.ids import ID_MASK
from tuple_tree.payloads import decode_tuples, encode_tuples, payload_codec
from tuple_tree.streams import StreamDeclaration, Values

_GAMMA = 0x9E3779B97F4A7C15


@dataclass(frozen=True)
class TupleRead:
    """A tuple in a record: its place, values and edges."""

    partition: int
    offset: int
    index: int
    values: Values
    edges: Edges


class HasTuples(Protocol):
    """A record as a consumer returns it."""

    def partition(self) -> int | None: ...
    def offset(self) -> int | None: ...
    def value(self) -> Any: ...
    def headers(self) -> Any: ...


def packed(stream: StreamDeclaration, *tuples: Sequence[Any]) -> bytes:
    """The payload of a record with these tuples."""
    return encode_tuples(payload_codec(stream), tuples)


def tuples_of(
    payload: bytes, headers: Iterable[tuple[str, Any]], stream: StreamDeclaration
) -> list[tuple[Values, Edges]]:
    """Values and edges of the tuples of a record."""
    rows = decode_tuples(payload_codec(stream), payload)
    return list(zip(rows, edges_in(headers, len(rows)), strict=True))


def tuples_in(records: Iterable[HasTuples], stream: StreamDeclaration) -> Iterator[TupleRead]:
    """The tuples of records of one stream."""
    for record in records:
        for index, (values, edges) in enumerate(tuples_of(record.value(), record.headers() or (), stream)):
            yield TupleRead(record.partition() or 0, record.offset() or 0, index, values, edges)


def edges_in(headers: Iterable[tuple[str, Any]], tuples: int | None = None) -> list[Edges]:
    """Edges of the tuples of a record; by default, of as many as its headers have anchors for."""
    named = dict(headers)
    columns = AnchorColumns.read(named.get(ANCHORS_HEADER), named.get(ANCHOR_COUNTS_HEADER), tuples)
    pairs = iter(zip(columns.roots.tolist(), columns.edges.tolist(), strict=True))
    return [dict(next(pairs) for _ in range(count)) for count in columns.counts.tolist()]


def under_seed(roots: Iterable[int | Iterable[int]], seed: int = 7) -> list[Edges]:
    """Edges of the tuples of a record with these roots, one or several each."""
    each = [(of,) if isinstance(of, int) else of for of in roots]
    return [dict.fromkeys(of, edge(seed, number)) for number, of in enumerate(each)]


def anchor_headers(edges: Sequence[Edges]) -> list[tuple[str, Any]]:
    """The headers of a record whose tuples have these edges; those of several tuples must be `under_seed`."""
    distinct = [set(each.values()) for each in edges]
    numbered = [(number, *of) for number, of in enumerate(distinct) if of]
    if not numbered:
        return []
    seed = _seed_of(numbered[0][1], numbered[0][0])
    assert all(numbered_edge == edge(seed, number) for number, numbered_edge in numbered), "edges of no seed"
    roots = np.array([root for each in edges for root in each], np.uint64)
    return [*AnchorColumns(roots, np.cumsum([0, *map(len, edges)]), seed).headers()]


def _seed_of(edge_: int, number: int) -> int:
    """The seed with which a number has this edge: the mixer backwards."""
    mixed = edge_ ^ edge_ >> 31 ^ edge_ >> 62
    mixed = mixed * pow(0x94D049BB133111EB, -1, 2**64) & ID_MASK
    mixed = mixed ^ mixed >> 27 ^ mixed >> 54
    mixed = mixed * pow(0xBF58476D1CE4E5B9, -1, 2**64) & ID_MASK
    mixed = mixed ^ mixed >> 30 ^ mixed >> 60
    return mixed - (number + 1) * _GAMMA & ID_MASK

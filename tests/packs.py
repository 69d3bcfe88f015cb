"""The tuples in records, for tests that look into topics."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tuple_tree.anchors import ANCHOR_COUNTS_HEADER, ANCHORS_HEADER, Edges, edges_of_tuples
from tuple_tree.payloads import decode_tuples, encode_tuples, payload_codec
from tuple_tree.streams import Stream, Values


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


def packed(stream: Stream, *tuples: Sequence[Any]) -> bytes:
    """The payload of a record with these tuples."""
    return encode_tuples(payload_codec(stream), tuples)


def tuples_of(payload: bytes, headers: Iterable[tuple[str, Any]], stream: Stream) -> list[tuple[Values, Edges]]:
    """Values and edges of the tuples of a record."""
    named = dict(headers)
    rows = decode_tuples(payload_codec(stream), payload)
    anchors = named.get(ANCHORS_HEADER)
    edges = edges_of_tuples(anchors, named.get(ANCHOR_COUNTS_HEADER)) if anchors else [{} for _ in rows]
    return list(zip(rows, edges, strict=True))


def tuples_in(records: Iterable[HasTuples], stream: Stream) -> Iterator[TupleRead]:
    """The tuples of records of one stream."""
    for record in records:
        for index, (values, edges) in enumerate(tuples_of(record.value(), record.headers() or (), stream)):
            yield TupleRead(record.partition() or 0, record.offset() or 0, index, values, edges)

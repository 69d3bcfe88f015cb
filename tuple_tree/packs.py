"""Packs: the tuples of one stream for one task, encoded as records of a limited size."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from tuple_tree.anchors import ANCHOR_COUNTS_HEADER, ANCHORS_HEADER, Columns, pack_counts
from tuple_tree.ids import pack_ids
from tuple_tree.payloads import MAX_BYTES


class Pack(NamedTuple):
    """Tuples encoded as one record; or one tuple that cannot be encoded, with the error."""

    part: Columns
    payload: bytes
    anchors: Sequence[tuple[str, bytes]]  # as `anchors_of` makes them
    size: int  # bytes of payload and anchors; anchors may be most of the record
    error: Exception | None = None


def packs(whole: Columns, encode: Callable[[Any], bytes], most: int) -> Iterator[Pack]:
    """Encodes tuples in order as packs of at most `most` tuples and `MAX_BYTES`.

    A pack that is too large, or cannot be encoded, is halved, down to single tuples: a single tuple may be larger.
    """
    for begin in range(0, len(whole.rows), most):
        yield from _halved(whole.part(begin, begin + most), encode)


def _halved(part: Columns, encode: Callable[[Any], bytes]) -> Iterator[Pack]:
    rows = part.rows
    try:
        payload, anchors = encode(rows), anchors_of(part)
    except Exception as error:  # noqa: BLE001 - Arrow raises ArrowInvalid, OverflowError, UnicodeEncodeError and more
        if len(rows) == 1:
            yield Pack(part, b"", (), 0, error)
            return
    else:
        size = len(payload) + sum(len(value) for _, value in anchors)
        if size <= MAX_BYTES or len(rows) == 1:
            yield Pack(part, payload, anchors, size)
            return
    half = len(rows) // 2
    yield from _halved(part.part(0, half), encode)
    yield from _halved(part.part(half, len(rows)), encode)


def anchors_of(part: Columns) -> list[tuple[str, bytes]]:
    """The headers `anchors` and `anchor-counts` of a record with these tuples, as far as they have anchors."""
    if not len(part.ids):
        return []
    headers = [(ANCHORS_HEADER, pack_ids(part.ids))]
    if part.counts is not None:
        headers.append((ANCHOR_COUNTS_HEADER, pack_counts(part.counts.tolist())))
    return headers

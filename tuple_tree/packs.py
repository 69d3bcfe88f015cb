"""Packs: the tuples of one stream for one task, encoded as records of a limited size."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from tuple_tree.anchors import Columns

MAX_ROWS: Final = 1_000  # tuples of a pack at most
MAX_BYTES: Final = 256 * 1024  # bytes of a pack of more than one tuple at most


class Pack(NamedTuple):
    """Tuples encoded as one record; or one tuple that cannot be encoded, with the error."""

    part: Columns
    payload: bytes
    headers: Sequence[tuple[str, bytes]]  # but for source and trace
    size: int  # bytes of payload and headers; anchors may be most of the record
    error: Exception | None = None


def packs(whole: Columns, encode: Callable[[Any], bytes], most: int) -> Iterator[Pack]:
    """Encodes tuples in order as packs of at most `most` tuples and `MAX_BYTES`.

    A pack that is too large, or cannot be encoded, is halved, down to single tuples: a single tuple may be larger. All
    tuples keep their edges and identities.
    """
    for begin in range(0, len(whole.rows), most):
        yield from _halved(whole.part(begin, begin + most), encode)


def _halved(part: Columns, encode: Callable[[Any], bytes]) -> Iterator[Pack]:
    rows = part.rows
    try:
        payload, headers = encode(rows), part.headers()
    except Exception as error:  # noqa: BLE001 - Arrow raises ArrowInvalid, OverflowError, UnicodeEncodeError and more
        if len(rows) == 1:
            yield Pack(part, b"", (), 0, error)
            return
    else:
        size = len(payload) + sum(len(value) for _, value in headers)
        if size <= MAX_BYTES or len(rows) == 1:
            yield Pack(part, payload, headers, size)
            return
    half = len(rows) // 2
    yield from _halved(part.part(0, half), encode)
    yield from _halved(part.part(half, len(rows)), encode)

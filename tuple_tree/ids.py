"""Ids: unsigned 64-bit integers, eight big-endian bytes on the wire; random ones are the system's, see ADR 29.

A root id names a tuple tree, an edge id one delivery of one tuple. Other languages may print them signed.
"""

import os
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, repeat
from sys import byteorder
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tuple_tree.errors import WireError

ID_MASK: Final = 2**64 - 1
ID_BYTES: Final = 8
IdColumn = NDArray[np.uint64]  # shape `(n,)`, dtype `>u8` or native `u8`: ids of a batch
_WIRE_ID: Final = np.dtype(">u8")
NO_IDS: Final[IdColumn] = np.frombuffer(b"", dtype=_WIRE_ID)  # most columns of most batches
_DRAW: Final = 1024  # ids a system call: 8 KiB, about 10 ns an id


def random_ids(entropy: Callable[[int], bytes] = os.urandom) -> Iterator[int]:
    """Independent random ids without end, never zero, because an edge of zero would not show in a checksum.

    Pass a seeded source of random bytes to repeat a run.
    """
    # By the block, so that drawing one runs Python code only once a block.
    return chain.from_iterable(random_column(_DRAW, entropy).tolist() for _ in repeat(None))


def random_column(size: int, entropy: Callable[[int], bytes] = os.urandom) -> IdColumn:
    """Independent random ids, none of them zero: shape `(size,)`, as `random_ids` draws them."""
    drawn = np.frombuffer(entropy(ID_BYTES * size), np.uint64)
    while not drawn.all():
        drawn = np.where(drawn == 0, np.frombuffer(entropy(ID_BYTES * size), np.uint64), drawn)
    return drawn


def pack_ids(ids: Sequence[int] | IdColumn) -> bytes:
    """Packs ids big-endian, back to back: `8 * len(ids)` bytes."""
    if isinstance(ids, np.ndarray):
        return ids.astype(_WIRE_ID, copy=False).tobytes()
    column = array("Q", ids)
    if byteorder == "little":
        column.byteswap()
    return column.tobytes()


def unpack_ids(packed: bytes, column: str = "ids") -> IdColumn:
    """Reads packed ids without copying them.

    Returns shape `(len(packed) / 8,)`, dtype `>u8`, read-only view of `packed`. Raises `WireError` if the length is no
    multiple of eight.
    """
    if len(packed) % ID_BYTES:
        raise WireError("ragged-column", f"{column} has {len(packed)} bytes, which is not a multiple of {ID_BYTES}")
    return np.frombuffer(packed, dtype=_WIRE_ID) if packed else NO_IDS

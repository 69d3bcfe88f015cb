"""Ids: unsigned 64-bit integers, eight big-endian bytes on the wire.

A root id names a tuple tree, an edge id one delivery of one tuple. Both are `int` in `[0, 2**64)` here; other
languages may print them signed, `signed` and `unsigned` convert.

Edge ids must look random and be independent under XOR, since a tree is complete when the XOR of its edges is zero.
They are taken from the operating system and not from a Mersenne Twister, whose output is linear over GF(2): there,
fixed sets of outputs XOR to zero whatever the seed.
"""

import os
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from sys import byteorder
from typing import Final

import numpy as np
import xxhash
from numpy.typing import NDArray

from tuple_tree.errors import PositionError, WireError

ID_MASK: Final = 2**64 - 1
ID_BYTES: Final = 8

IdColumn = NDArray[np.uint64]
"""Shape `(n,)`, dtype `>u8` or native `u8`: ids of a batch."""

_DRAW: Final = 1024  # ids a system call: 8 KiB, about 10 ns an id


def random_ids(entropy: Callable[[int], bytes] = os.urandom) -> Iterator[int]:
    """Yields independent random ids without end, never zero.

    Zero is left out because an edge of zero would not show in a checksum.

    Args:
        entropy: returns that many random bytes; pass a seeded source to repeat a run.
    """
    while True:
        for drawn in array("Q", entropy(_DRAW * ID_BYTES)):
            if drawn:
                yield drawn


def signed(id_: int) -> int:
    """The id as a two's complement 64-bit integer, as Java and Spark hold it."""
    return id_ - 2**64 if id_ >= 2**63 else id_


def unsigned(id_: int) -> int:
    """The id of a signed 64-bit integer; the inverse of `signed`."""
    return id_ & ID_MASK


def pack_ids(ids: Sequence[int]) -> bytes:
    """Packs ids big-endian, back to back: `8 * len(ids)` bytes."""
    column = array("Q", ids)
    if byteorder == "little":
        column.byteswap()
    return column.tobytes()


def unpack_ids(packed: bytes, column: str = "ids") -> IdColumn:
    """Reads packed ids without copying them.

    Args:
        packed: big-endian ids, back to back.
        column: what to call it in the error.

    Returns:
        Shape `(len(packed) / 8,)`, dtype `>u8`, read-only view of `packed`.

    Raises:
        WireError: if the length is no multiple of eight.
    """
    if len(packed) % ID_BYTES:
        raise WireError("ragged-column", f"{column} has {len(packed)} bytes, which is no multiple of {ID_BYTES}")
    return np.frombuffer(packed, dtype=">u8")


@dataclass(frozen=True, slots=True)
class Position:
    """Where a source message lies, and which attempt to deliver it this is.

    Attributes:
        spout: index of the spout in its topology's manifest, below 64.
        partition: source partition, below 4,096.
        offset: source offset, below 2**40.
        attempt: 0 for the first delivery, below 64.
    """

    spout: int
    partition: int
    offset: int
    attempt: int = 0


_SPOUT_BITS: Final = 6
_PARTITION_BITS: Final = 12
_OFFSET_BITS: Final = 40
_ATTEMPT_BITS: Final = 6

MAX_SPOUTS: Final = 1 << _SPOUT_BITS
MAX_PARTITIONS: Final = 1 << _PARTITION_BITS
MAX_OFFSET: Final = 1 << _OFFSET_BITS
MAX_ATTEMPTS: Final = 1 << _ATTEMPT_BITS
OFFSET_SHIFT: Final = _ATTEMPT_BITS

_ROUNDS: Final = 4
_HALF: Final = 0xFFFF_FFFF
_SEED: Final = 42


_hashed: Final = xxhash.xxh64_intdigest


def _round(half: int, number: int) -> int:
    return _hashed((half | number << 32).to_bytes(8, "little"), _SEED) & _HALF


def positional_root(position: Position) -> int:
    """The root id of a source position: unique by construction, and random-looking to the mod-hash.

    The fields are laid side by side (spout 6 bits, partition 12, offset 40, attempt 6) and put through a four-round
    Feistel network whose round function is XXH64 with seed 42 of the 64-bit little-endian integer
    `half | round << 32`, low 32 bits. A Feistel network is a bijection whatever its round function (Luby and Rackoff,
    1988), and Spark computes the same with `xxhash64`, shifts and XOR, without an overflowing multiplication.

    Raises:
        PositionError: if a field does not fit.
    """
    return root_of_word(position_word(position))


def position_word(position: Position) -> int:
    """The fields of a position laid side by side; the offset begins at bit `OFFSET_SHIFT`.

    Raises:
        PositionError: if a field does not fit.
    """
    for name, bits in (
        ("spout", _SPOUT_BITS),
        ("partition", _PARTITION_BITS),
        ("offset", _OFFSET_BITS),
        ("attempt", _ATTEMPT_BITS),
    ):
        value = getattr(position, name)
        if not 0 <= value < 1 << bits:
            raise PositionError(f"{name} {value} does not fit a positional root id: it must be below {1 << bits}")
    return (
        position.spout << (_PARTITION_BITS + _OFFSET_BITS + _ATTEMPT_BITS)
        | position.partition << (_OFFSET_BITS + _ATTEMPT_BITS)
        | position.offset << OFFSET_SHIFT
        | position.attempt
    )


def root_of_word(word: int) -> int:
    """The root id of a `position_word`; a loop over the offsets of a partition lays its other fields out once."""
    left, right = word >> 32, word & _HALF
    for number in range(_ROUNDS):
        hashed = _hashed((right | number << 32).to_bytes(8, "little"), _SEED)
        left, right = right, left ^ (hashed & _HALF)
    return left << 32 | right


def position_of(root: int) -> Position:
    """The source position that a positional root id stands for; the inverse of `positional_root`."""
    left, right = root >> 32, root & _HALF
    for number in reversed(range(_ROUNDS)):
        left, right = right ^ _round(left, number), left
    plain = left << 32 | right
    return Position(
        spout=plain >> (_PARTITION_BITS + _OFFSET_BITS + _ATTEMPT_BITS),
        partition=plain >> (_OFFSET_BITS + _ATTEMPT_BITS) & ((1 << _PARTITION_BITS) - 1),
        offset=plain >> _ATTEMPT_BITS & ((1 << _OFFSET_BITS) - 1),
        attempt=plain & ((1 << _ATTEMPT_BITS) - 1),
    )

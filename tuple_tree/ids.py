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
from itertools import chain
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

_WIRE_ID: Final = np.dtype(">u8")
_NO_IDS: Final[IdColumn] = np.frombuffer(b"", dtype=_WIRE_ID)  # most columns of most batches
_DRAW: Final = 1024  # ids a system call: 8 KiB, about 10 ns an id


def random_ids(entropy: Callable[[int], bytes] = os.urandom) -> Iterator[int]:
    """Independent random ids without end, never zero.

    Zero is left out because an edge of zero would not show in a checksum.

    Args:
        entropy: returns that many random bytes; pass a seeded source to repeat a run.
    """
    return chain.from_iterable(_blocks(entropy))


def _blocks(entropy: Callable[[int], bytes]) -> Iterator[list[int]]:
    """Ids by the block: whoever draws one goes through no Python but once a block."""
    while True:
        drawn = np.frombuffer(entropy(_DRAW * ID_BYTES), dtype=np.uint64)
        yield drawn[drawn != 0].tolist()


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
    return np.frombuffer(packed, dtype=_WIRE_ID) if packed else _NO_IDS


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


SPOUT_BITS: Final = 6
PARTITION_BITS: Final = 12
OFFSET_BITS: Final = 40
ATTEMPT_BITS: Final = 6
"""Widths of the fields of a positional root, the highest first."""

MAX_SPOUTS: Final = 1 << SPOUT_BITS
MAX_PARTITIONS: Final = 1 << PARTITION_BITS
MAX_OFFSET: Final = 1 << OFFSET_BITS
MAX_ATTEMPTS: Final = 1 << ATTEMPT_BITS
OFFSET_SHIFT: Final = ATTEMPT_BITS

_ROUNDS: Final = 4
_HALF: Final = 0xFFFF_FFFF
_SEED: Final = 42


_hashed: Final = xxhash.xxh64_intdigest


def _round(half: int, number: int) -> int:
    return _hashed((half | number << 32).to_bytes(8, "little"), _SEED) & _HALF


def topic_key(topic_id: str) -> int:
    """What the roots of a source topic are XORed with: XXH64, seed 42, of its id in ASCII, as Kafka's tools print it.

    Kafka gives a topic that is deleted and created again another id, so no message of the new one has a root that may
    still be open for the old one, or for another topic.
    """
    return _hashed(topic_id.encode(), _SEED)


def positional_root(position: Position, key: int) -> int:
    """The root id of a source position: unique within its topic by construction, and random-looking to the mod-hash.

    The fields are laid side by side (spout 6 bits, partition 12, offset 40, attempt 6) and put through a four-round
    Feistel network whose round function is XXH64 with seed 42 of the 64-bit little-endian integer
    `half | round << 32`, low 32 bits. A Feistel network is a bijection whatever its round function (Luby and Rackoff,
    1988), and Spark computes the same with `xxhash64`, shifts and XOR, without an overflowing multiplication. The
    result is XORed with the topic's key.

    Args:
        position: of the message in its topic.
        key: `topic_key` of the topic.

    Raises:
        PositionError: if a field does not fit.
    """
    return root_of_word(position_word(position)) ^ key


def position_word(position: Position) -> int:
    """The fields of a position laid side by side; the offset begins at bit `OFFSET_SHIFT`.

    Raises:
        PositionError: if a field does not fit.
    """
    for name, bits in (
        ("spout", SPOUT_BITS),
        ("partition", PARTITION_BITS),
        ("offset", OFFSET_BITS),
        ("attempt", ATTEMPT_BITS),
    ):
        value = getattr(position, name)
        if not 0 <= value < 1 << bits:
            raise PositionError(f"{name} {value} does not fit a positional root id: it must be below {1 << bits}")
    return (
        position.spout << (PARTITION_BITS + OFFSET_BITS + ATTEMPT_BITS)
        | position.partition << (OFFSET_BITS + ATTEMPT_BITS)
        | position.offset << OFFSET_SHIFT
        | position.attempt
    )


def root_of_word(word: int) -> int:
    """The root of a `position_word`, before the key of its topic; a loop lays the other fields out once."""
    left, right = word >> 32, word & _HALF
    for number in range(_ROUNDS):
        hashed = _hashed((right | number << 32).to_bytes(8, "little"), _SEED)
        left, right = right, left ^ (hashed & _HALF)
    return left << 32 | right


_MANY: Final = 40  # from here on numpy is faster than a loop
_PRIMES: Final = tuple(
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)


def roots_of_words(words: Sequence[int]) -> list[int]:
    """`root_of_word` of each; of hundreds, six times as fast.

    The round function is written out for a column of 64-bit integers, after the specification of XXH64 (Collet), for
    an input of eight bytes.
    """
    if len(words) < _MANY:
        return [root_of_word(word) for word in words]
    column = np.array(words, dtype=np.uint64)
    half, low = np.uint64(32), np.uint64(_HALF)
    left, right = column >> half, column & low
    for number in range(_ROUNDS):
        left, right = right, left ^ (_hashed_column(right | np.uint64(number << 32)) & low)
    roots: list[int] = (left << half | right).tolist()
    return roots


def _hashed_column(column: IdColumn) -> IdColumn:
    """XXH64, seed 42, of each integer's eight little-endian bytes."""
    first, second, third, fourth, fifth = _PRIMES
    hashed = _rotated(column * second, 31) * first ^ np.uint64((_SEED + int(fifth) + ID_BYTES) & ID_MASK)
    hashed = _rotated(hashed, 27) * first + fourth
    hashed ^= hashed >> np.uint64(33)
    hashed *= second
    hashed ^= hashed >> np.uint64(29)
    hashed *= third
    return hashed ^ hashed >> np.uint64(32)


def _rotated(column: IdColumn, bits: int) -> IdColumn:
    return column << np.uint64(bits) | column >> np.uint64(64 - bits)


def position_of(root: int, key: int) -> Position:
    """The source position that a positional root id stands for; the inverse of `positional_root`."""
    root ^= key
    left, right = root >> 32, root & _HALF
    for number in reversed(range(_ROUNDS)):
        left, right = right ^ _round(left, number), left
    plain = left << 32 | right
    return Position(
        spout=plain >> (PARTITION_BITS + OFFSET_BITS + ATTEMPT_BITS),
        partition=plain >> (OFFSET_BITS + ATTEMPT_BITS) & ((1 << PARTITION_BITS) - 1),
        offset=plain >> ATTEMPT_BITS & ((1 << OFFSET_BITS) - 1),
        attempt=plain & ((1 << ATTEMPT_BITS) - 1),
    )

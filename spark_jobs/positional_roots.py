"""Positional root ids for whole columns: made by Spark expressions, read back by numpy.

The same as `tuple_tree.ids.positional_root` and `position_of`. Spark hashes a `bigint` as its eight little-endian
bytes, which is what the round function asks for; shifts, XOR and masks never overflow, so ANSI mode does not object.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from tuple_tree.ids import ATTEMPT_BITS, OFFSET_BITS, PARTITION_BITS, SPOUT_BITS, IdColumn, signed
from tuple_tree.routing import HASH_SEED

_ROUNDS: Final = 4
_HALF: Final = 0xFFFF_FFFF


def positional_root(spout: int, partition: Column, offset: Column, attempt: Column, key: int) -> Column:
    """The root id of a source position, a `bigint`; all fields must be within their bits, and `key` is the topic's."""
    high = F.lit(spout << PARTITION_BITS).cast("bigint").bitwiseOR(partition.cast("bigint"))
    plain = (
        F.shiftleft(high, OFFSET_BITS + ATTEMPT_BITS)
        .bitwiseOR(F.shiftleft(offset.cast("bigint"), ATTEMPT_BITS))
        .bitwiseOR(attempt.cast("bigint"))
    )
    half = F.lit(_HALF).cast("bigint")
    left, right = F.shiftrightunsigned(plain, 32), plain.bitwiseAND(half)
    for number in range(_ROUNDS):
        hashed = F.xxhash64(right.bitwiseOR(F.lit(number << 32).cast("bigint"))).bitwiseAND(half)
        left, right = right, left.bitwiseXOR(hashed)
    return F.shiftleft(left, 32).bitwiseOR(right).bitwiseXOR(F.lit(signed(key)).cast("bigint"))


@dataclass(frozen=True, slots=True)
class PositionColumns:
    """Source positions; all of shape `(n,)`, dtype `i8`."""

    spout: NDArray[np.int64]
    partition: NDArray[np.int64]
    offset: NDArray[np.int64]
    attempt: NDArray[np.int64]


def positions_of(roots: IdColumn, key: int) -> PositionColumns:
    """The source positions that positional root ids of a topic stand for."""
    ids = roots.astype(np.uint64) ^ np.uint64(key)
    left, right = ids >> np.uint64(32), ids & np.uint64(_HALF)
    for number in reversed(range(_ROUNDS)):
        hashed = _xxh64(left | np.uint64(number << 32)) & np.uint64(_HALF)
        left, right = right ^ hashed, left
    plain = left << np.uint64(32) | right
    return PositionColumns(
        spout=_bits(plain, PARTITION_BITS + OFFSET_BITS + ATTEMPT_BITS, SPOUT_BITS),
        partition=_bits(plain, OFFSET_BITS + ATTEMPT_BITS, PARTITION_BITS),
        offset=_bits(plain, ATTEMPT_BITS, OFFSET_BITS),
        attempt=_bits(plain, 0, ATTEMPT_BITS),
    )


def _bits(plain: NDArray[np.uint64], shift: int, bits: int) -> NDArray[np.int64]:
    return (plain >> np.uint64(shift) & np.uint64((1 << bits) - 1)).astype(np.int64)


_PRIME_1: Final = np.uint64(0x9E3779B185EBCA87)
_PRIME_2: Final = np.uint64(0xC2B2AE3D27D4EB4F)
_PRIME_3: Final = np.uint64(0x165667B19E3779F9)
_PRIME_4: Final = np.uint64(0x85EBCA77C2B2AE63)
_START: Final = np.uint64((HASH_SEED + 0x27D4EB2F165667C5 + 8) % 2**64)


def _xxh64(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """XXH64 of the eight little-endian bytes of each value (Collet's specification, for inputs of one lane)."""
    hashed = _START ^ _rotated(values * _PRIME_2, 31) * _PRIME_1
    hashed = _rotated(hashed, 27) * _PRIME_1 + _PRIME_4
    hashed = (hashed ^ hashed >> np.uint64(33)) * _PRIME_2
    hashed = (hashed ^ hashed >> np.uint64(29)) * _PRIME_3
    return hashed ^ hashed >> np.uint64(32)


def _rotated(values: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
    return values << np.uint64(bits) | values >> np.uint64(64 - bits)

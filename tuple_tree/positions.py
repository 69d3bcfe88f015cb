"""Positional roots: roots that contain the position of a source message.

A root is unique within its topic by construction, and its position can be read from it. The messages of a block of
1,024 offsets share an ack partition, so that what a spout emits together is acked in few batches.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import xxhash
from numpy.typing import NDArray

from tuple_tree.errors import PositionError
from tuple_tree.ids import ID_BYTES, ID_MASK


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a source message, and which attempt to deliver it this is."""

    spout: int  # index in the topology's manifest, below 64
    partition: int  # below 4,096
    offset: int  # below 2**40
    attempt: int = 0  # below 64


# Widths of the fields of a positional root, the highest first.
SPOUT_BITS: Final = 6
PARTITION_BITS: Final = 12
OFFSET_BITS: Final = 40
ATTEMPT_BITS: Final = 6
_WIDTHS: Final = {"spout": SPOUT_BITS, "partition": PARTITION_BITS, "offset": OFFSET_BITS, "attempt": ATTEMPT_BITS}
MAX_SPOUTS: Final = 1 << SPOUT_BITS
MAX_PARTITIONS: Final = 1 << PARTITION_BITS
MAX_OFFSET: Final = 1 << OFFSET_BITS
MAX_ATTEMPTS: Final = 1 << ATTEMPT_BITS
OFFSET_SHIFT: Final = ATTEMPT_BITS
_REST_BITS: Final = 16  # ten of the offset, and the attempt
_REST: Final = (1 << _REST_BITS) - 1
_BLOCKS: Final = 1 << 64 - _REST_BITS
_SPREAD: Final = 0x9E37  # odd, so multiplying by it modulo 2**16 is a bijection
_SPREAD_INVERSE: Final = pow(_SPREAD, -1, 1 << _REST_BITS)
_ROUNDS: Final = 4
_HALF_BITS: Final = 24
_HALF: Final = (1 << _HALF_BITS) - 1
_SEED: Final = 42
Words = NDArray[np.uint64]  # shape `(n,)`


def topic_key(topic_id: str) -> int:
    """Offset added to the roots of a source topic: XXH64, seed 42, of its id in ASCII, as Kafka's tools print it.

    Kafka gives a topic that is deleted and created again another id, so no message of the new one has a root that may
    still be open for the old one, or for another topic.
    """
    return xxhash.xxh64_intdigest(topic_id.encode(), _SEED)


def positional_root(position: Position, key: int, partitions: int) -> int:
    """The root id of a source position. Raises `PositionError` if a field does not fit."""
    return int(roots_of_words([position_word(position)], [key], partitions)[0])


def position_of(root: int, key: int, partitions: int) -> Position:
    """The source position that a positional root id stands for; the inverse of `positional_root`."""
    return Position(*(int(field[0]) for field in fields_of_words(words_of_roots([root], key, partitions))))


def position_word(position: Position) -> int:
    """The fields of a position laid side by side; the offset begins at bit `OFFSET_SHIFT`.

    Raises `PositionError` if a field does not fit.
    """
    word = 0
    for name, bits in _WIDTHS.items():
        value = getattr(position, name)
        if not 0 <= value < 1 << bits:
            raise PositionError(f"{name} {value} does not fit a positional root id: it must be below {1 << bits}")
        word = word << bits | value
    return word


def first_position(spout: int) -> int:
    """The position of identities of the first message of a spout: its `position_word`, without the attempt.

    That of another message has the number of its partition and its offset, 40 bits wide, in addition.
    """
    return position_word(Position(spout, 0, 0)) >> ATTEMPT_BITS


def fields_of_words(words: Words) -> list[Words]:
    """Spout, partition, offset and attempt of each `position_word`."""
    fields = []
    for bits in reversed(_WIDTHS.values()):
        fields.append(words & np.uint64((1 << bits) - 1))
        words = words >> np.uint64(bits)
    return fields[::-1]


def roots_of_words(words: Sequence[int] | Words, keys: Sequence[int] | Words, partitions: int) -> Words:
    """The root of each `position_word`, with the `topic_key` of each, or one for all.

    The upper 48 bits of the word, the block, go through a four-round Feistel network, which is a bijection whatever its
    round function (Luby and Rackoff, 1988); here that is XXH64. The block so mixed, modulo P, picks the ack partition.
    The lower 16 bits are permuted, and say which of the 65,536 roots of the block with this remainder it is: P blocks
    share a range of P * 65,536 roots. The last 2**48 modulo P blocks fill none, and have their ranges alone.
    """
    column = np.asarray(words, dtype=np.uint64)
    block = _mixed(column >> np.uint64(_REST_BITS))
    rest = (column & np.uint64(_REST)) * np.uint64(_SPREAD) + block & np.uint64(_REST)
    group, remainder = np.divmod(block, np.uint64(partitions))
    roots = (group << np.uint64(_REST_BITS) | rest) * np.uint64(partitions) + remainder
    alone = block >= np.uint64(_BLOCKS - _BLOCKS % partitions)
    roots[alone] = block[alone] << np.uint64(_REST_BITS) | rest[alone]
    return roots + np.asarray(keys, dtype=np.uint64)


def words_of_roots(roots: Any, key: int, partitions: int) -> Words:
    """The `position_word` of each positional root of a topic; roots are of shape `(n,)`, in any byte order."""
    column = np.asarray(roots).astype(np.uint64) - np.uint64(key)
    place, remainder = np.divmod(column, np.uint64(partitions))
    block = (place >> np.uint64(_REST_BITS)) * np.uint64(partitions) + remainder
    rest = place & np.uint64(_REST)
    alone = column >> np.uint64(_REST_BITS) >= np.uint64(_BLOCKS - _BLOCKS % partitions)
    block[alone] = column[alone] >> np.uint64(_REST_BITS)
    rest[alone] = column[alone] & np.uint64(_REST)
    offset = (rest - block) * np.uint64(_SPREAD_INVERSE) & np.uint64(_REST)
    return _mixed(block, backwards=True) << np.uint64(_REST_BITS) | offset


def word_of_root(root: int, key: int, partitions: int) -> int:
    """The `position_word` of one root, as `words_of_roots` returns it, which takes longer for less than some twenty."""
    column = (root - key) & ID_MASK
    if column >> _REST_BITS >= _BLOCKS - _BLOCKS % partitions:
        block, rest = column >> _REST_BITS, column & _REST
    else:
        place, remainder = divmod(column, partitions)
        block, rest = (place >> _REST_BITS) * partitions + remainder, place & _REST
    right, left = block & _HALF, block >> _HALF_BITS
    for number in reversed(range(_ROUNDS)):
        mixed = xxhash.xxh64_intdigest((left | number << 32).to_bytes(ID_BYTES, "little"), _SEED)
        left, right = right ^ mixed & _HALF, left
    return (left << _HALF_BITS | right) << _REST_BITS | (rest - block) * _SPREAD_INVERSE & _REST


def are_attempts(root: int, other: int, partitions: int) -> bool:
    """Whether two roots that have the same position are of the same message.

    Otherwise its topic was deleted and created again. In rare cases it is False for attempts of one message.
    """
    # Attempts differ in the lower bits alone, which are permuted, and all roots of a topic have the same offset added.
    apart = (root - other) & ID_MASK
    if apart > ID_MASK >> 1:
        apart -= ID_MASK + 1
    between, rest = divmod(apart, partitions)
    if rest or abs(between) > _REST:
        return False
    attempts = between * _SPREAD_INVERSE & _REST
    return attempts < MAX_ATTEMPTS or attempts > _REST + 1 - MAX_ATTEMPTS


def _mixed(blocks: Words, *, backwards: bool = False) -> Words:
    half, low = np.uint64(_HALF_BITS), np.uint64(_HALF)
    left, right = blocks >> half, blocks & low
    if backwards:
        left, right = right, left
    for number in reversed(range(_ROUNDS)) if backwards else range(_ROUNDS):
        left, right = right, left ^ (_hashed(right | np.uint64(number << 32)) & low)
    if backwards:
        left, right = right, left
    return left << half | right


_PRIMES: Final = tuple(
    map(np.uint64, (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5))
)


def _hashed(column: Words) -> Words:
    """XXH64, seed 42, of each integer's eight little-endian bytes, after the specification of XXH64 (Collet)."""
    first, second, third, fourth, fifth = _PRIMES
    hashed = _rotated(column * second, 31) * first ^ np.uint64((_SEED + int(fifth) + ID_BYTES) & ID_MASK)
    hashed = _rotated(hashed, 27) * first + fourth
    hashed ^= hashed >> np.uint64(33)
    hashed *= second
    hashed ^= hashed >> np.uint64(29)
    hashed *= third
    return hashed ^ hashed >> np.uint64(32)


def _rotated(column: Words, bits: int) -> Words:
    return column << np.uint64(bits) | column >> np.uint64(64 - bits)

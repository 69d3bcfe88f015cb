"""The partitions to which producers write a key, by the partitioners that Kafka's clients have by default."""

from typing import Final
from zlib import crc32

_MASK: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF
_WORD: Final = 4
_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995


def likely_partitions(key: bytes, partitions: int) -> list[int]:
    """The partition by librdkafka's partitioner (CRC32) and that by Java's (murmur2).

    A producer may choose another one, and a topic may have had fewer partitions: it is where a search begins.
    """
    return sorted({crc32(key) % partitions, (murmur2(key) & _POSITIVE) % partitions})


def murmur2(data: bytes) -> int:
    """Kafka's 32-bit murmur2, as an unsigned integer."""
    hashed = _SEED ^ len(data)
    whole = len(data) - len(data) % _WORD
    for at in range(0, whole, _WORD):
        word = int.from_bytes(data[at : at + _WORD], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        hashed = hashed * _MULTIPLIER & _MASK ^ word
    if rest := data[whole:]:
        hashed = (hashed ^ int.from_bytes(rest, "little")) * _MULTIPLIER & _MASK
    hashed = (hashed ^ hashed >> 13) * _MULTIPLIER & _MASK
    return hashed ^ hashed >> 15

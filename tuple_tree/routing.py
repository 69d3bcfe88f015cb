"""Routing: which acker partition owns a root, and which task of a bolt a key belongs to.

Ids and hashes are unsigned everywhere before the modulo: Java's and Spark's signed remainder differs.
"""

from collections.abc import Sequence
from typing import Final

import xxhash

HASH_SEED: Final = 42
_SECOND_SEED: Final = 43
_SEPARATOR: Final = b"\x1f"


def acker_partition(root: int, partitions: int) -> int:
    """The partition of `{topology}.acks` that holds everything about this root: `root mod P`."""
    return root % partitions


def fields_task(key: bytes, tasks: int) -> int:
    """The task that a fields grouping gives this key: XXH64 with seed 42, unsigned, modulo the tasks."""
    return xxhash.xxh64_intdigest(key, HASH_SEED) % tasks


def partial_key_tasks(key: bytes, tasks: int) -> tuple[int, int]:
    """The two tasks between which a partial key grouping may choose; they differ unless there is only one task.

    The first is that of a fields grouping. The second lies `1 + XXH64(key, seed 43) mod (tasks - 1)` behind it, modulo
    the tasks. Nasir et al., "The Power of Both Choices", 2015: with two choices a key the load of the tasks stays even.
    """
    first = fields_task(key, tasks)
    if tasks == 1:
        return first, first
    return first, (first + 1 + xxhash.xxh64_intdigest(key, _SECOND_SEED) % (tasks - 1)) % tasks


def grouping_key(values: Sequence[object]) -> bytes:
    """The record key of a fields grouping: readable, and the same in every language.

    Text as UTF-8, bytes as they are, integers in decimal, booleans as `true` and `false`, nothing for null; several
    fields are separated by the byte 0x1f. Floating-point values are refused, because languages print them differently.

    Raises `TypeError` for a value that has no such form.
    """
    if len(values) == 1:
        return _key_part(values[0])
    return _SEPARATOR.join(map(_key_part, values))


def _key_part(value: object) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, int):
        return b"%d" % value
    if value is None:
        return b""
    raise TypeError(
        f"a {type(value).__name__} cannot be grouped by: a grouping field is text, bytes, an integer, a boolean or null"
    )

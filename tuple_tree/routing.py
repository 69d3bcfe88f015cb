"""Routing: which acker partition owns a root, and which tasks of a bolt receive which tuples.

Ids and hashes are unsigned everywhere before the modulo: Java's and Spark's signed remainder differs. Groupings of
whole columns choose the same tasks for the same fields; those that are free to choose give each task a run of rows.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import xxhash

from tuple_tree.anchors import Rows
from tuple_tree.manifest import Subscription
from tuple_tree.payloads import PackCodec

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


Share = tuple[int, Rows | slice]  # a task, and the rows that it receives
ChooseRows = Callable[[Any], list[Share]]
"""Shares the rows of a record batch out; raises `TypeError` for values that cannot be grouped by."""

_ALL: Final = slice(None)


def shuffled(tasks: int, start: int) -> ChooseRows:
    """Runs of rows, as long as each other to within a row, in turn."""
    turn = start % tasks

    def choose(batch: Any) -> list[Share]:
        nonlocal turn
        rows = batch.num_rows
        parts = min(tasks, rows)
        bounds = [rows * part // parts for part in range(parts + 1)] if parts else [0]
        shares: list[Share] = [((turn + part) % tasks, slice(bounds[part], bounds[part + 1])) for part in range(parts)]
        turn = (turn + parts) % tasks
        return shares

    return choose


def by_fields(codec: PackCodec, tasks: int, positions: tuple[int, ...]) -> ChooseRows:
    """Equal values of the fields always reach the same task."""

    def choose(batch: Any) -> list[Share]:
        codes, keys = _keys(codec, batch, positions)
        task_of_key = np.fromiter((fields_task(key, tasks) for key in keys), np.intp, len(keys))
        return list(_shares(task_of_key[codes]))

    return choose


def by_partial_key(codec: PackCodec, tasks: int, positions: tuple[int, ...]) -> ChooseRows:
    """Equal values of the fields reach one of two tasks; within a batch, that to which less was sent before it."""
    sent = [0] * tasks

    def choose(batch: Any) -> list[Share]:
        codes, keys = _keys(codec, batch, positions)
        task_of_key = np.empty(len(keys), np.intp)
        for code, (key, count) in enumerate(zip(keys, np.bincount(codes).tolist(), strict=True)):
            first, second = partial_key_tasks(key, tasks)
            task_of_key[code] = task = first if sent[first] <= sent[second] else second
            sent[task] += count
        return list(_shares(task_of_key[codes]))

    return choose


def choose_rows_for(
    codec: PackCodec, subscription: Subscription, tasks: int, field_names: tuple[str, ...], start: int
) -> ChooseRows | None:
    """The grouping of a subscription; None for those that a component chooses itself, `direct` and `custom`."""
    positions = tuple(field_names.index(name) for name in subscription.fields)
    match subscription.grouping:
        case "shuffle" | "local_or_shuffle" | "none":
            return shuffled(tasks, start)
        case "fields":
            return by_fields(codec, tasks, positions)
        case "partial_key":
            return by_partial_key(codec, tasks, positions)
        case "global" | "all":
            shares: list[Share] = [(task, _ALL) for task in range(tasks if subscription.grouping == "all" else 1)]
            return lambda _batch: shares
        case "direct" | "custom":
            return None


def _keys(codec: PackCodec, batch: Any, positions: tuple[int, ...]) -> tuple[Rows, list[bytes]]:
    """The key of each row: which of the different ones, shape `(n,)`, and these."""
    codes, values = codec.distinct(batch, positions[0])
    parts = [values]
    first = np.arange(len(values))
    for position in positions[1:]:
        more, values = codec.distinct(batch, position)
        parts.append(values)
        _, first, codes = np.unique(codes * len(values) + more, return_index=True, return_inverse=True)
    if len(parts) == 1:
        return codes, [value if value.__class__ is bytes else grouping_key((value,)) for value in parts[0]]
    rows = batch.take(first)
    columns = [codec.column(rows, position) for position in positions]
    return codes, [grouping_key(key) for key in zip(*columns, strict=True)]


def _shares(tasks: Rows) -> Iterator[Share]:
    if not len(tasks):
        return
    order = np.argsort(tasks, kind="stable")
    ends = np.cumsum(np.bincount(tasks))
    begin = 0
    for task, end in enumerate(ends.tolist()):
        if end > begin:
            yield task, _ALL if end - begin == len(tasks) else order[begin:end]
        begin = end

"""Groupings of whole columns: which tasks of a bolt receive which rows of a record batch.

The same tasks as `routing` for fields; groupings that may choose give each task a run of rows.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from tuple_tree.anchor_columns import Rows
from tuple_tree.manifest import Subscription
from tuple_tree.packs import PackCodec
from tuple_tree.routing import fields_task, grouping_key, partial_key_tasks

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

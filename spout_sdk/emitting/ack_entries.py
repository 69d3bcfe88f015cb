"""What a task has buffered for the ackers, and how it is shared out among the partitions of the ack log."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tuple_tree.ids import IdColumn

_NONE: Final[IdColumn] = np.empty(0, dtype=np.uint64)

Places = NDArray[np.intp]
"""Positions of entries in a column."""


class Entries(NamedTuple):
    """Entries of ack batches, a column for each thing that is told.

    Attributes:
        init_roots, init_vals: shape `(n,)`; root, XOR of the edge ids of every recipient.
        ack_roots, ack_vals: shape `(m,)`; root, ack val.
        fail_roots: shape `(k,)`.
        fail_messages: why, one for each of `fail_roots`.
        reset_roots: shape `(r,)`.
    """

    init_roots: IdColumn = _NONE
    init_vals: IdColumn = _NONE
    ack_roots: IdColumn = _NONE
    ack_vals: IdColumn = _NONE
    fail_roots: IdColumn = _NONE
    fail_messages: tuple[str, ...] = ()
    reset_roots: IdColumn = _NONE


NOTHING: Final = Entries()


def split(entries: Entries, partitions: int) -> list[tuple[int, Entries]]:
    """Shares entries out by root mod P; within a partition they keep their order.

    Args:
        entries: of all partitions.
        partitions: P.

    Returns:
        A share for each partition that there is anything for, partitions rising.
    """
    if partitions == 1:
        return [(0, entries)]
    inits = _places(entries.init_roots, partitions)
    acks = _places(entries.ack_roots, partitions)
    fails = _places(entries.fail_roots, partitions)
    resets = _places(entries.reset_roots, partitions)
    shares = []
    for partition in sorted({*inits, *acks, *fails, *resets}):
        began, acked = inits.get(partition), acks.get(partition)
        failed, reset = fails.get(partition), resets.get(partition)
        shares.append(
            (
                partition,
                Entries(
                    _taken(entries.init_roots, began),
                    _taken(entries.init_vals, began),
                    _taken(entries.ack_roots, acked),
                    _taken(entries.ack_vals, acked),
                    _taken(entries.fail_roots, failed),
                    () if failed is None else tuple(entries.fail_messages[place] for place in failed),
                    _taken(entries.reset_roots, reset),
                ),
            )
        )
    return shares


def parts(partition: int, entries: Entries, most: int) -> Iterator[tuple[int, Entries]]:
    """The entries of a partition, so many at most of each kind at a time."""
    columns: tuple[Any, ...] = entries
    size = max(map(len, columns))
    for begin in range(0, size, most):
        yield partition, Entries(*(column[begin : begin + most] for column in columns))


def _places(roots: IdColumn, partitions: int) -> dict[int, Places]:
    """Partition → where its roots stand."""
    if not len(roots):
        return {}
    owners = (roots % np.uint64(partitions)).astype(np.intp)
    if len(owners) == 1:
        return {int(owners[0]): np.zeros(1, dtype=np.intp)}
    order = np.argsort(owners, kind="stable")
    ends = np.cumsum(np.bincount(owners, minlength=partitions)).tolist()
    starts = [0, *ends]
    return {partition: order[starts[partition] : end] for partition, end in enumerate(ends) if end > starts[partition]}


def _taken(column: IdColumn, places: Places | None) -> IdColumn:
    return _NONE if places is None else column[places]

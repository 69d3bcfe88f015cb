"""Entries of the ack log as columns, and their shares among its partitions."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from tuple_tree.ids import NO_IDS, IdColumn

MOST_ENTRIES: Final = 32_768
"""Entries of a batch of each kind, at most: a bolt may ack any number of tuples at once, and a batch fits a record."""

# The columns of each kind of entry.
_KINDS: Final = (
    ("init_roots", "init_vals"),
    ("ack_roots", "ack_vals"),
    ("fail_roots", "fail_messages"),
    ("reset_roots",),
    ("mark_roots", "mark_vals", "mark_messages"),
)


class Entries(NamedTuple):
    """Inits, acks, fails, resets and marks; columns of one kind have equal lengths, of shape `(n,)` and dtype `u8`."""

    init_roots: IdColumn = NO_IDS
    init_vals: IdColumn = NO_IDS
    ack_roots: IdColumn = NO_IDS
    ack_vals: IdColumn = NO_IDS
    fail_roots: IdColumn = NO_IDS
    fail_messages: Sequence[str] = ()
    reset_roots: IdColumn = NO_IDS
    mark_roots: IdColumn = NO_IDS
    mark_vals: IdColumn = NO_IDS
    mark_messages: Sequence[str] = ()

    def shares(self, partitions: int, largest: int = MOST_ENTRIES) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yields columns of an `AckBatch` for each batch: partition, and the columns with entries by name.

        An entry belongs to partition `root mod partitions`. Partitions rise; a batch has `largest` entries of each kind
        at most, and the batches of a partition keep the order of the entries.
        """
        shares: dict[int, dict[str, Any]] = {}
        for names in _KINDS:
            columns = [getattr(self, name) for name in names]
            if len(columns[0]):
                for partition, share in _divided(columns, partitions):
                    shares.setdefault(partition, {}).update(zip(names, share, strict=True))
        for partition in sorted(shares):
            named = shares[partition]
            for begin in range(0, max(map(len, named.values())), largest):
                parts = {name: column[begin : begin + largest] for name, column in named.items()}
                yield partition, {name: part for name, part in parts.items() if len(part)}


def _divided(columns: Sequence[Any], partitions: int) -> Iterator[tuple[int, Sequence[Any]]]:
    """Yields the columns of each partition with entries of a kind, in their order; the first column has the roots."""
    roots = columns[0]
    # Numpy sorts narrow integers by radix, ten times faster.
    owners = (roots % np.uint64(partitions)).astype(np.min_scalar_type(partitions))
    if (owners == owners[0]).all():
        yield int(owners[0]), columns
        return
    order = np.argsort(owners, kind="stable")
    ends = np.cumsum(np.bincount(owners, minlength=partitions)).tolist()
    ordered = [
        column[order] if isinstance(column, np.ndarray) else [column[place] for place in order] for column in columns
    ]
    for partition, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
        if begin < end:
            yield partition, [column[begin:end] for column in ordered]

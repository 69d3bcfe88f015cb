"""Entries of the ack log as columns, and their shares among its partitions."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tuple_tree.ids import NO_IDS, IdColumn

LARGEST_BATCH: Final = 32_768
"""Entries of a batch of each kind, at most: a bolt may ack any number of tuples at once, and a batch fits a record."""

_NO_PLACES: Final = np.empty(0, dtype=np.intp)


class Entries(NamedTuple):
    """Inits, acks, fails and resets; columns of one kind have equal lengths, of shape `(n,)` and dtype `u8`."""

    init_roots: IdColumn = NO_IDS
    init_vals: IdColumn = NO_IDS
    ack_roots: IdColumn = NO_IDS
    ack_vals: IdColumn = NO_IDS
    fail_roots: IdColumn = NO_IDS
    fail_messages: Sequence[str] = ()
    reset_roots: IdColumn = NO_IDS

    def shares(self, partitions: int, largest: int = LARGEST_BATCH) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yields the columns of an `AckBatch` for each batch: partition, and its columns by name.

        An entry belongs to partition `root mod partitions`. Partitions rise; a batch has `largest` entries of each kind
        at most, and the batches of a partition keep the order of the entries.
        """
        each = [_places(roots, partitions) for roots in (self.init_roots, self.ack_roots, self.fail_roots)]
        each.append(_places(self.reset_roots, partitions))
        for partition in sorted(set().union(*each)):
            places = [of_kind.get(partition, _NO_PLACES) for of_kind in each]
            for begin in range(0, max(map(len, places)), largest):
                inits, acks, fails, resets = (of_kind[begin : begin + largest] for of_kind in places)
                yield (
                    partition,
                    {
                        "init_roots": self.init_roots[inits],
                        "init_vals": self.init_vals[inits],
                        "ack_roots": self.ack_roots[acks],
                        "ack_vals": self.ack_vals[acks],
                        "fail_roots": self.fail_roots[fails],
                        "fail_messages": tuple(self.fail_messages[place] for place in fails),
                        "reset_roots": self.reset_roots[resets],
                    },
                )


def _places(roots: IdColumn, partitions: int) -> dict[int, NDArray[np.intp]]:
    """Partition → positions of its roots, rising."""
    if not len(roots):
        return {}
    # Numpy sorts narrow integers by radix, ten times faster.
    owners = (roots % np.uint64(partitions)).astype(np.min_scalar_type(partitions))
    if (owners == owners[0]).all():
        return {int(owners[0]): np.arange(len(roots))}
    order = np.argsort(owners, kind="stable")
    ends = np.cumsum(np.bincount(owners, minlength=partitions)).tolist()
    starts = [0, *ends]
    return {partition: order[starts[partition] : end] for partition, end in enumerate(ends) if end > starts[partition]}

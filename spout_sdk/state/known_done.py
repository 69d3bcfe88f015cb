"""The messages of source partitions that are known to be done: the union of all commits of their spouts."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tuple_tree.done_sets import DoneSet
from tuple_tree.ids import IdColumn
from tuple_tree.positions import OFFSET_BITS

_EMPTY: Final = np.zeros(0, np.uint64)


class KnownDone:
    """The done offsets of source partitions, by partition key: `spout << 12 | number of the partition`.

    A position is a partition key and an offset. The known done positions are a sorted array of positions, which are in
    turn the begin and the end of a run.
    """

    def __init__(self) -> None:
        self._last: dict[int, DoneSet] = {}  # the last commit, by partition key
        self._of: dict[int, IdColumn] = {}  # begins and ends of runs of offsets, in turn, by partition key
        self._bounds: IdColumn = _EMPTY
        self._bound_list: list[int] = []

    def learn(self, done: Mapping[int, DoneSet]) -> set[int]:
        """Adds the done offsets of commits; returns the keys of partitions with new done offsets."""
        more = set()
        for key, each in done.items():
            if (last := self._last.get(key)) is not None and (last.offset, last.runs) == (each.offset, each.runs):
                continue
            self._last[key] = each
            known = self._of.get(key, _EMPTY)
            union = _union(known, _bounds_of(each))
            if not np.array_equal(union, known):
                self._of[key] = union
                more.add(key)
        if more:
            parts = [np.uint64(key << OFFSET_BITS) + self._of[key] for key in sorted(self._of)]
            self._bounds = np.concatenate(parts)
            self._bound_list = self._bounds.tolist()
        return more

    def contains(self, positions: IdColumn) -> NDArray[np.bool_]:
        """Returns True for positions that are known to be done."""
        return (self._bounds.searchsorted(positions, "right") & 1).astype(bool)

    def has(self, position: int) -> bool:
        return bool(bisect_right(self._bound_list, position) & 1)

    def of(self, key: int) -> DoneSet:
        bounds = self._of.get(key, _EMPTY).tolist()
        runs = list(zip(bounds[::2], bounds[1::2], strict=True))
        return DoneSet(runs[0][1], runs[1:]) if runs and runs[0][0] == 0 else DoneSet(0, runs)


def _bounds_of(done: DoneSet) -> IdColumn:
    runs: Iterable[tuple[int, int]] = ((0, done.offset), *done.runs)
    return np.array([run for run in runs if run[0] < run[1]], np.uint64).reshape(-1)


def _union(one: IdColumn, other: IdColumn) -> IdColumn:
    """The union of two sets of runs; runs that touch become one."""
    begins = np.concatenate((one[::2], other[::2]))
    if not len(begins):
        return _EMPTY
    order = begins.argsort(kind="stable")
    begins = begins[order]
    ends = np.maximum.accumulate(np.concatenate((one[1::2], other[1::2]))[order])
    is_apart = begins[1:] > ends[:-1]
    bounds = np.empty(2 * (1 + np.count_nonzero(is_apart)), np.uint64)
    bounds[0], bounds[-1] = begins[0], ends[-1]
    bounds[2::2] = begins[1:][is_apart]
    bounds[1:-1:2] = ends[:-1][is_apart]
    return bounds

"""Entries that wait to be applied in one go, because a call of a kernel costs as much as applying a hundred of them.

The fold applies them before anything that it would notice: a new tick, the end of a rebuild, the message of a fail, the
end of the records that it was given.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from tuple_tree.ids import IdColumn

FULL: Final = 8_192
"""Entries at which it is to be applied: enough for the call not to be noticed, little enough for the caches."""
_MOST: Final = 8 * FULL
_RUNS: Final = 64


class Stage:
    """Runs of roots, each with the rule by which it is applied.

    Attributes:
        roots, vals: shape `(>= entries,)`, native u8.
        rules: shape `(>= runs,)`, u1; `kernels.INIT`, `ACK`, `FAIL` or `RESET`.
        spouts: shape `(>= runs,)`, u8; index of the owner of inits.
        ends: shape `(>= runs,)`, i8; how many entries there are up to the end of each run.
    """

    __slots__ = ("ends", "entries", "roots", "rules", "runs", "spouts", "vals")

    def __init__(self) -> None:
        self._make_columns(FULL)
        self.rules = np.empty(_RUNS, dtype=np.uint8)
        self.spouts = np.empty(_RUNS, dtype=np.uint64)
        self.ends = np.empty(_RUNS, dtype=np.int64)
        self.entries = 0
        self.runs = 0

    @property
    def full(self) -> bool:
        return self.entries >= FULL

    def add(self, rule: int, roots: IdColumn, vals: IdColumn | None = None, spout: int = 0) -> None:
        """Adds a run of at least one root, in any byte order; `spout` is the index of the owner of inits."""
        start, stop = self.entries, self.entries + len(roots)
        if stop > len(self.roots):
            held, held_vals = self.roots[:start], self.vals[:start]
            self._make_columns(2 * stop)
            self.roots[:start], self.vals[:start] = held, held_vals
        if self.runs == len(self.rules):
            self.rules = np.resize(self.rules, 2 * self.runs)
            self.spouts = np.resize(self.spouts, 2 * self.runs)
            self.ends = np.resize(self.ends, 2 * self.runs)
        self.roots[start:stop] = roots
        if vals is not None:
            self.vals[start:stop] = vals
        self.rules[self.runs] = rule
        self.spouts[self.runs] = spout
        self.ends[self.runs] = stop
        self.entries = stop
        self.runs += 1

    def clear(self) -> None:
        """Makes it empty; the room that a large batch took is given back."""
        if len(self.roots) > _MOST:
            self._make_columns(FULL)
        self.entries = self.runs = 0

    def _make_columns(self, entries: int) -> None:
        self.roots: NDArray[np.uint64] = np.empty(entries, dtype=np.uint64)
        self.vals: NDArray[np.uint64] = np.empty(entries, dtype=np.uint64)

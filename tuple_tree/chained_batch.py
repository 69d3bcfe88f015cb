"""Batches of the inputs of chained bolts: rows that were handed over in a task, instead of being sent.

A chained input has no edge. What is emitted for it joins the *head input* that it goes back to: the input that the task
has read, or the tree that its spout begins. That is done when no chained input that goes back to it is open.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tuple_tree.anchors import Rows
from tuple_tree.identities import IdentityColumns
from tuple_tree.ids import IdColumn
from tuple_tree.input_batch import InputBatch, Places, as_column

_ALL: Final = slice(None)
_ROWS: Final = 3  # of the columns: roots, and others, which are zero


class ChainedBatch(InputBatch):
    """The anchors of chained inputs that were handed over together.

    Args:
        runs: batch and places of the inputs that they were emitted for, in order: a place for each anchor.
        trace_context: as of an `InputBatch`.
        identities: of each place, with the paths at the bolt that receives them; None if it needs none.

    Attributes:
        is_counted: whether those that are open are counted at their head inputs.
    """

    __slots__ = ("_at", "_heads", "_runs", "_which", "is_counted")

    _which: NDArray[np.intp] | None

    def __init__(
        self,
        runs: Sequence[tuple[InputBatch, NDArray[np.intp]]],
        trace_context: Any = (),
        identities: IdentityColumns | None = None,
    ) -> None:
        super().__init__(trace_context, is_identified=identities is not None)
        self.is_counted = False
        self._runs: Sequence[tuple[InputBatch, NDArray[np.intp]]] = ()
        size = sum(len(places) for _, places in runs)
        found = [(_at_heads(batch, places), len(places)) for batch, places in runs]
        if len(found) == 1 and len(found[0][0]) == 1:
            ((head, self._at, _),) = found[0][0]
            self._heads, self._which = [head], None
        else:
            self._find_heads(found, size)
        if identities is not None:
            self.add(_roots(runs), np.zeros(size, np.uint64), identities)
        else:
            self._runs, self.size = runs, size

    def _find_heads(self, found: "Sequence[tuple[Sequence[_AtHead], int]]", size: int) -> None:
        numbers: dict[InputBatch, int] = {}  # of the heads, in order
        self._at, which, begin = np.empty(size, np.intp), np.zeros(size, np.intp), 0
        for heads, count in found:
            end = begin + count
            for head, at, rows in heads:
                which[begin:end][rows] = numbers.setdefault(head, len(numbers))
                self._at[begin:end][rows] = at
            begin = end
        self._heads = [*numbers]
        self._which = which  # of the heads, for each place; None if there is one

    def _all(self) -> IdColumn:
        """The columns; the roots are those of the inputs, and are looked up when they are asked for first."""
        if self._runs:
            columns = np.zeros((_ROWS, self.size), np.uint64)
            columns[0] = _roots(self._runs)
            self._columns, self._runs = columns, ()
        return self._columns

    def join(self, places: Places, edges: IdColumn) -> None:
        """Children are anchored to places: their edges are those of children of the head inputs."""
        for head, at, rows in _at_heads(self, as_column(places)):
            head.join(at, edges[rows])

    def count_open(self, places: Places, change: int) -> None:
        """Counts chained inputs at their head inputs."""
        for head, at, _ in _at_heads(self, as_column(places)):
            head.count_open(at, change)

    def note_effects(self, places: Places) -> None:
        """Notes that something was written for inputs."""
        for head, at, _ in _at_heads(self, as_column(places)):
            head.note_effects(at)


def _roots(runs: Sequence[tuple[InputBatch, NDArray[np.intp]]]) -> IdColumn:
    return np.concatenate([batch.roots[places] for batch, places in runs])


_AtHead = tuple[InputBatch, NDArray[np.intp], Rows | slice]


def _at_heads(batch: InputBatch, places: NDArray[np.intp]) -> list[_AtHead]:
    """The head inputs of places of a batch: their batch and places, and which of the given places these are of."""
    if not isinstance(batch, ChainedBatch):
        return [(batch, places, _ALL)]
    at = batch._at[places]
    if batch._which is None:
        return [(batch._heads[0], at, _ALL)]
    which = batch._which[places]
    rows = [(head, np.flatnonzero(which == number)) for number, head in enumerate(batch._heads)]
    return [(head, at[of], of) for head, of in rows if len(of)]

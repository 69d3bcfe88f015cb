"""Batches of the inputs of chained bolts: rows that pass from bolt to bolt in a task, without Kafka.

A chained input has no edge: the edges of its children join its *head input*, which is the input that the task has read,
or the tree that its spout begins. A head input is done when it is acked and none of its chained inputs is open.
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
    """The anchors of chained inputs that were passed on together.

    Args:
        runs: batch and places of the inputs that they are anchored to, in order: one place for each anchor.
        trace_context: as of an `InputBatch`.
        identities: the identity of each place, with its path at the receiving bolt; None if the bolt needs none.
    """

    __slots__ = ("_at", "_heads", "_runs", "_which")

    _which: NDArray[np.intp] | None

    def __init__(
        self,
        runs: Sequence[tuple[InputBatch, NDArray[np.intp]]],
        trace_context: Any = (),
        identities: IdentityColumns | None = None,
    ) -> None:
        super().__init__(trace_context, is_identified=identities is not None)
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
        self._which = which  # for each place the index of its head; None if there is one head

    def _all(self) -> IdColumn:
        """The columns; the first call copies the roots of the inputs into them."""
        if self._runs:
            columns = np.zeros((_ROWS, self.size), np.uint64)
            columns[0] = _roots(self._runs)
            self._columns, self._runs = columns, ()
        return self._columns

    def join(self, places: Places, edges: IdColumn) -> None:
        """Adds the edges of children of these places to the head inputs."""
        for head, at, rows in _at_heads(self, as_column(places)):
            head.join(at, edges[rows])

    def count_open(self, places: Places, change: int) -> None:
        """Adds `change` to the number of open chained inputs of the head inputs of these places."""
        for head, at, _ in _at_heads(self, as_column(places)):
            head.count_open(at, change)

    def has_open(self, places: Places) -> NDArray[np.bool_] | None:
        """Shape `(n,)`: whether anything is open of the head input of each of these places; None if nothing is."""
        found = np.zeros(len(places), np.bool_)
        for head, at, rows in _at_heads(self, as_column(places)):
            if (is_open := head.has_open(at)) is not None:
                found[rows] = is_open
        return found if found.any() else None

    def head(self, place: int) -> tuple[InputBatch, int]:
        return self._heads[0 if self._which is None else self._which[place]], int(self._at[place])


def _roots(runs: Sequence[tuple[InputBatch, NDArray[np.intp]]]) -> IdColumn:
    return np.concatenate([batch.roots[places] for batch, places in runs])


_AtHead = tuple[InputBatch, NDArray[np.intp], Rows | slice]


def _at_heads(batch: InputBatch, places: NDArray[np.intp]) -> list[_AtHead]:
    """The head inputs of places of a batch: for each head batch its places, and the indices of the given places."""
    if not isinstance(batch, ChainedBatch):
        return [(batch, places, _ALL)]
    at = batch._at[places]
    if batch._which is None:
        return [(batch._heads[0], at, _ALL)]
    which = batch._which[places]
    rows = [(head, np.flatnonzero(which == number)) for number, head in enumerate(batch._heads)]
    return [(head, at[of], of) for head, of in rows if len(of)]

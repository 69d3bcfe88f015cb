"""Input batches: the anchors of a task's inputs as columns, from which all ack vals are computed.

An input has a place in a batch for each tree that it belongs to. What is emitted is noted as the places that it is
anchored to; its edges are drawn when it is sent, and XORed into `out` of these places (`InputBatch.join`). The entry of
an input for the acker is its own edge and those of its children (`InputBatch.vals`). A spout's message is an input
without an edge: its entry is the init of its tree.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tuple_tree.ids import IdColumn

LARGEST_BATCH: Final = 1_024
"""Places after which the next record begins a batch: an input that is held keeps its whole batch in memory."""

Places = Sequence[int] | NDArray[np.intp]
_LEAST_ROOM: Final = 16
_NO_COLUMNS: Final[IdColumn] = np.zeros((3, 0), np.uint64)


class InputBatch:
    """The anchors of consecutive inputs of a task.

    Args:
        trace_context: headers of the trace that all these inputs belong to; tuples anchored to them get it as well.
        is_tracked: False for inputs that belong to no tree; they share place 0.
    """

    __slots__ = ("_begun", "_columns", "is_tracked", "size", "trace_context")

    def __init__(self, trace_context: Any = (), *, is_tracked: bool = True) -> None:
        self.trace_context: Any = trace_context or []
        self.is_tracked = is_tracked
        self.size = 0
        # Roots, edges, and the XOR of the edges of children, with room for more. Other threads may read the first
        # two, of inputs that they know: what is written once is never changed, here and where it is copied to.
        self._columns: IdColumn = _NO_COLUMNS
        self._begun: list[int] = []  # roots of trees that begin, which are not in the columns yet

    def add(self, roots: IdColumn, edges: IdColumn) -> int:
        """Adds root and edge of each anchor of a record's tuples, in order; returns the place of the first."""
        self._all()
        begin, end = self.size, self.size + len(roots)
        columns = self._with_room(begin, end)
        columns[0, begin:end], columns[1, begin:end] = roots, edges
        self.size = end
        return begin

    def begin(self, root: int) -> int:
        """Adds a tree that a spout begins, and returns its place."""
        place = self.size
        self.size += 1
        self._begun.append(root)
        return place

    @property
    def roots(self) -> IdColumn:
        """Shape `(size,)`, dtype `u8`, of each place."""
        return self._all()[0, : self.size]

    @property
    def edges(self) -> IdColumn:
        """Shape `(size,)`, dtype `u8`: ids of the deliveries of the inputs; 0 for trees that begin."""
        return self._all()[1, : self.size]

    def join(self, places: Places, edges: IdColumn) -> None:
        """Children are anchored to places, in any order and number, under these edges."""
        np.bitwise_xor.at(self._all()[2], places, edges)

    def vals(self, places: Places) -> IdColumn:
        """The vals of inits or acks of places: the edge of the input, and those of its children, all XORed."""
        _, edges, children = self._all()
        vals: IdColumn = edges[places] ^ children[places]
        return vals

    def has_children(self, places: Places | slice) -> bool:
        """Whether anything was sent that is anchored to any of these places."""
        return bool(self._all()[2][places].any())

    def part_children(self, places: Places) -> IdColumn:
        """The XOR of the edges of children so far, which the places no longer count: they are acked ahead of these.

        Args:
            places: each once.
        """
        children = self._all()[2]
        vals: IdColumn = children[places]
        children[places] = 0
        return vals

    def _all(self) -> IdColumn:
        """The columns, shape `(3, room)`, of all places."""
        if self._begun:
            begun, self._begun = self._begun, []
            begin = self.size - len(begun)
            self._with_room(begin, self.size)[0, begin : self.size] = np.fromiter(begun, np.uint64, len(begun))
        return self._columns

    def _with_room(self, size: int, needed: int) -> IdColumn:
        """The columns, with room for `needed` places; they have `size`."""
        if needed > self._columns.shape[1]:
            more = np.zeros((3, max(_LEAST_ROOM, 2 * needed)), np.uint64)
            more[:, :size] = self._columns[:, :size]
            self._columns = more
        return self._columns


NO_BATCH: Final = InputBatch(is_tracked=False)


class PlacedRuns:
    """Places in the order in which they were noted, as runs of places of one batch each.

    Attributes:
        batch: that of the last run; `NO_BATCH` if the next place begins a run in any case.
        places: of the last run.
        runs: batch and places of each.
    """

    __slots__ = ("batch", "places", "runs")

    def __init__(self) -> None:
        self.batch: InputBatch | None = NO_BATCH
        self.places: list[int] = []
        self.runs: list[tuple[InputBatch, Places]] = []

    def turn(self, batch: InputBatch) -> None:
        """Begins a run of places of a batch."""
        self.batch, self.places = batch, []
        self.runs.append((batch, self.places))

    def add(self, batch: InputBatch, place: int) -> None:
        """Notes a place; what is called for each tuple does this itself."""
        if self.batch is not batch:
            self.turn(batch)
        self.places.append(place)

    def add_all(self, batch: InputBatch, places: Places) -> None:
        """Notes places of a batch as a run of their own."""
        self.batch = NO_BATCH
        self.runs.append((batch, places))

    def add_range(self, batch: InputBatch, places: range) -> None:
        """Notes consecutive places of a batch; a range that continues the last one is in its run."""
        last: Places = self.runs[-1][1] if self.runs and self.runs[-1][0] is batch else []
        if isinstance(last, range) and last.step == 1 and last.stop == places.start:
            self.runs[-1] = batch, range(last.start, places.stop)
        else:
            self.add_all(batch, places)

    def remove(self, batch: InputBatch, place: int) -> None:
        """Removes a place, once, if it is noted."""
        for at, (of, places) in enumerate(self.runs):
            if of is batch and place in places:
                self.batch = NO_BATCH
                column = as_column(places)
                self.runs[at] = batch, np.delete(column, np.flatnonzero(column == place)[0])
                return

    def take(self) -> list[tuple[InputBatch, Places]]:
        """Removes all runs, and returns those with places that belong to trees as columns."""
        runs, self.runs, self.batch = self.runs, [], NO_BATCH
        return [(batch, as_column(places)) for batch, places in runs if batch.is_tracked and len(places)]


def as_column(places: Places) -> NDArray[np.intp]:
    """Places as an array of shape `(n,)`."""
    if isinstance(places, range):
        return np.arange(places.start, places.stop, places.step)
    return places if isinstance(places, np.ndarray) else np.fromiter(places, np.intp, len(places))

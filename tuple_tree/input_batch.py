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

from tuple_tree.identities import NO_POSITION, IdentityColumns
from tuple_tree.ids import IdColumn

MOST_PLACES: Final = 1_024
"""Places after which the next record begins a batch: an input that is held keeps its whole batch in memory."""

Places = Sequence[int] | NDArray[np.intp]
_LEAST_ROOM: Final = 16
_ROOTS, _EDGES, _CHILDREN, _POSITIONS, _PATHS, _EMITTED = range(6)  # the columns; the last three if identified
_NO_COLUMNS: Final[IdColumn] = np.zeros((_POSITIONS, 0), np.uint64)
_NO_IDENTIFIED: Final[IdColumn] = np.zeros((_EMITTED + 1, 0), np.uint64)

NUMBER_SHIFT: Final = 32
NUMBER_STEP: Final = 1 << NUMBER_SHIFT
PLACE_MASK: Final = NUMBER_STEP - 1
"""The place of an identified input that an emit is anchored to has the number of the emit above these bits."""


class InputBatch:
    """The anchors of consecutive inputs of a task.

    Args:
        trace_context: headers of the trace that all these inputs belong to; tuples anchored to them get it as well.
        is_tracked: False for inputs that belong to no tree; they share place 0.
        is_identified: whether the inputs have identities, as their component has a state or a stream that leads to one.

    Attributes:
        emitted: for each place, how many tuples were emitted that are anchored to it alone, times `NUMBER_STEP`; None
            unless identified. What emits single tuples raises it; `numbers` counts those of whole columns.
    """

    __slots__ = (
        *("_begun", "_columns", "_has_released", "_open", "_positions"),
        *("emitted", "is_identified", "is_tracked", "size", "trace_context"),
    )

    def __init__(self, trace_context: Any = (), *, is_tracked: bool = True, is_identified: bool = False) -> None:
        self.trace_context: Any = trace_context or []
        self.is_tracked = is_tracked
        self.is_identified = is_identified
        self.emitted: list[int] | None = [] if is_identified else None
        self.size = 0
        # Roots, edges, and the XOR of the edges of children, with room for more. Other threads may read the first
        # two, of inputs that they know: what is written once is never changed, here and where it is copied to.
        self._columns: IdColumn = _NO_IDENTIFIED if is_identified else _NO_COLUMNS
        # Roots of trees that begin, which are not in the columns yet, and the positions of their messages.
        self._begun: list[int] = []
        self._positions: list[int] = []
        # For each place, with room for more: how much is open that was made of it.
        self._open: NDArray[np.int32] | None = None
        self._has_released = False

    def add(self, roots: IdColumn, edges: IdColumn, identities: IdentityColumns | None = None) -> int:
        """Adds root and edge of each anchor of a record's tuples, in order; returns the place of the first.

        Args:
            roots: shape `(n,)`.
            edges: of the roots.
            identities: of the roots' tuples, with the paths as received; only for an identified batch.
        """
        self._all()
        begin, end = self.size, self.size + len(roots)
        columns = self._with_room(begin, end)
        columns[_ROOTS, begin:end], columns[_EDGES, begin:end] = roots, edges
        if self.emitted is not None:
            of = IdentityColumns.none(len(roots)) if identities is None else identities
            columns[_POSITIONS, begin:end], columns[_PATHS, begin:end] = of.positions, of.paths
            self.emitted += [0] * len(roots)
        self.size = end
        return begin

    def begin(self, root: int, position: int = NO_POSITION) -> int:
        """Adds a tree that a spout begins, with the position of its message, and returns its place."""
        place = self.size
        self.size += 1
        self._begun.append(root)
        if self.emitted is not None:
            self.emitted.append(0)
            self._positions.append(position)
        return place

    @property
    def roots(self) -> IdColumn:
        """Shape `(size,)`, dtype `u8`, of each place."""
        return self._all()[_ROOTS, : self.size]

    @property
    def edges(self) -> IdColumn:
        """Shape `(size,)`, dtype `u8`: ids of the deliveries of the inputs; 0 for trees that begin."""
        return self._all()[_EDGES, : self.size]

    @property
    def positions(self) -> IdColumn:
        """Shape `(size,)`, dtype `u8`: positions of the source messages; `NO_POSITION` where there is no identity."""
        return self._all()[_POSITIONS, : self.size]

    @property
    def paths(self) -> IdColumn:
        """Shape `(size,)`, dtype `u8`: paths of the inputs as received; 0 for trees that begin."""
        return self._all()[_PATHS, : self.size]

    def numbers(self, places: Places) -> IdColumn:
        """The numbers of tuples that are emitted, each anchored to one of these places, in order: shape `(n,)`."""
        emitted, column = self._all()[_EMITTED], as_column(places)
        if (column[1:] > column[:-1]).all():  # each place once
            numbers: IdColumn = emitted[column]
            emitted[column] += np.uint64(1)
            return numbers
        order = np.argsort(column, kind="stable")
        ordered = column[order]
        # The first of each place, from which the next ones count.
        firsts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
        counts = np.diff(firsts, append=len(ordered))
        numbers = np.empty(len(column), np.uint64)
        numbers[order] = np.arange(len(ordered)) - np.repeat(firsts, counts)
        numbers += emitted[column]
        emitted[ordered[firsts]] += counts.astype(np.uint64)
        return numbers

    def reset_emit_sequence(self, places: Places) -> None:
        """Inputs are executed again: what is emitted for them has the numbers of the execution before."""
        if self.emitted is not None:
            for place in places:
                self.emitted[place] = self._all()[_EMITTED, place] = 0

    def identities(self, places: Places, numbers: IdColumn) -> IdentityColumns:
        """The identities of tuples that were emitted, each anchored to one place, under these numbers."""
        columns = self._all()
        positions = columns[_POSITIONS][places]
        paths = columns[_PATHS][places] + numbers
        paths[positions == np.uint64(NO_POSITION)] = 0
        return IdentityColumns(positions, paths)

    def join(self, places: Places, edges: IdColumn) -> None:
        """Children are anchored to places, in any order and number, under these edges."""
        np.bitwise_xor.at(self._all()[_CHILDREN], places, edges)

    def vals(self, places: Places) -> IdColumn:
        """The vals of inits or acks of places: the edge of the input, and those of its children, all XORed."""
        columns = self._all()
        vals: IdColumn = columns[_EDGES][places] ^ columns[_CHILDREN][places]
        return vals

    def count_open(self, places: Places, change: int) -> None:
        """Adds `change` to the number of what is open of each place; a place may be given more than once.

        A tuple in a step behind is open, and a record that is not delivered; in a transaction the input itself.
        """
        self._open = self._sized(self._open)
        self._has_released |= change < 0
        np.add.at(self._open, places, np.int32(change))  # any other type is cast, which takes 30 times as long

    @property
    def has_counts(self) -> bool:
        """Whether anything open was ever counted; never in a chained batch, whose head inputs count."""
        return self._open is not None

    def take_released(self) -> bool:
        """Whether a number of what is open became smaller since the last call."""
        released, self._has_released = self._has_released, False
        return released

    def has_open(self, places: Places) -> NDArray[np.bool_] | None:
        """Shape `(n,)`: whether anything is open of each of these places; None if nothing is."""
        if self._open is None:
            return None
        self._open = self._sized(self._open)
        found: NDArray[np.bool_] = self._open[places] != 0
        return found if found.any() else None

    def head(self, place: int) -> tuple["InputBatch", int]:
        """Batch and place of the input that the task has read."""
        return self, place

    def children(self, places: Places) -> IdColumn:
        """Shape `(n,)`: the XOR of the edges of the children of each place."""
        children: IdColumn = self._all()[_CHILDREN][places]
        return children

    def begin_open(self, places: Places, edges: IdColumn) -> IdColumn:
        """Gives each new tree an edge of its own, which the spout acks as a bolt acks the edge of an input.

        Returns the vals of the inits: these edges, and those of the children so far. The vals of the later acks are
        these edges, and those of the children that follow.
        """
        columns = self._all()
        columns[_EDGES][places] = edges ^ columns[_CHILDREN][places]
        vals: IdColumn = columns[_EDGES][places]
        return vals

    def _all(self) -> IdColumn:
        """The columns, shape `(3, room)`, or `(6, room)` if identified, of all places."""
        if self._begun:
            begun, self._begun = self._begun, []
            begin = self.size - len(begun)
            columns = self._with_room(begin, self.size)
            columns[_ROOTS, begin : self.size] = np.fromiter(begun, np.uint64, len(begun))
            if self.is_identified:
                columns[_POSITIONS, begin : self.size] = np.fromiter(self._positions, np.uint64, len(begun))
                self._positions = []
        return self._columns

    def _sized(self, column: NDArray[np.int32] | None) -> NDArray[np.int32]:
        """A column with at least `size` places; new ones are zero."""
        if column is not None and len(column) >= self.size:
            return column
        grown = np.zeros(self._all().shape[1], np.int32)
        if column is not None:
            grown[: len(column)] = column
        return grown

    def _with_room(self, size: int, needed: int) -> IdColumn:
        """The columns, with room for `needed` places; they have `size`."""
        if needed > self._columns.shape[1]:
            more = np.zeros((len(self._columns), max(_LEAST_ROOM, 2 * needed)), np.uint64)
            more[:, :size] = self._columns[:, :size]
            self._columns = more
        return self._columns


class AwaitedBatch(InputBatch):
    """The batch of a tuple without a tree that leaves, in a transaction, with an input: that of a place."""

    __slots__ = ("_awaited",)

    def __init__(self, awaited: tuple[InputBatch, int], trace_context: Any) -> None:
        super().__init__(trace_context, is_tracked=False)
        self._awaited = awaited

    def has_open(self, _places: Places) -> NDArray[np.bool_] | None:
        batch, place = self._awaited
        return batch.has_open([place])

    def head(self, _place: int) -> tuple[InputBatch, int]:
        batch, place = self._awaited
        return batch.head(place)


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

    def start_run(self, batch: InputBatch) -> None:
        """Begins a run of places of a batch."""
        self.batch, self.places = batch, []
        self.runs.append((batch, self.places))

    def add(self, batch: InputBatch, place: int) -> None:
        """Notes a place; what is called for each tuple does this itself."""
        if self.batch is not batch:
            self.start_run(batch)
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

    def take(self) -> list[tuple[InputBatch, Places]]:
        """Removes all runs, and returns those with places that belong to trees as columns."""
        runs, self.runs, self.batch = self.runs, [], NO_BATCH
        return [(batch, as_column(places)) for batch, places in runs if batch.is_tracked and len(places)]


def numbered(places: NDArray[np.intp], numbers: IdColumn, counts: NDArray[np.intp] | None) -> NDArray[np.intp]:
    """The places of tuples that are emitted, with the number of each tuple above `NUMBER_SHIFT`.

    `counts` says how many places each tuple has, None if each has one.
    """
    column = numbers if counts is None else np.repeat(numbers, counts)
    return places | column.astype(np.intp) << NUMBER_SHIFT


def as_column(places: Places) -> NDArray[np.intp]:
    """Places as an array of shape `(n,)`."""
    if isinstance(places, range):
        return np.arange(places.start, places.stop, places.step)
    return places if isinstance(places, np.ndarray) else np.fromiter(places, np.intp, len(places))

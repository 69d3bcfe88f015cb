"""The trees of a spout with chained bolts: a tree needs no acker if all of its tuples stay in the chain."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spout_sdk.records import Clock
from tuple_tree.ids import IdColumn
from tuple_tree.input_batch import InputBatch, PlacedRuns

HELD_SECONDS: Final = 1.0
"""After this time the init of a tree is sent although its chain is open; then the timeout of the acker applies."""

_Placed = tuple[InputBatch, NDArray[np.intp]]


class _Trees(NamedTuple):
    """Trees that began together, whose chain is open.

    Attributes:
        since: when a flush found them first, by the clock of the task.
    """

    since: float
    batch: InputBatch
    places: NDArray[np.intp]

    def at(self, chosen: NDArray[np.bool_]) -> "_Trees":
        """Some of the trees; `chosen` is of shape `(n,)`."""
        return self._replace(places=self.places[chosen])


class ChainedTrees:
    """Trees whose inits are not sent yet, and trees whose inits have an edge of the spout's own.

    If no tuple of a tree was sent to another process when its chain ends, the spout's task acks the message itself:
    `take_ended`. Otherwise the init has the edges of all sent tuples. While a chain is open, its init waits, but not
    after a tuple has left the chain, and not for longer than a second: then the init also has an edge of the spout's
    own, which is acked when the chain ends. With transactions, such a tree also ends then if no tuple has left the
    chain, so that its message is committed with the records that were written for it.

    Args:
        acked: receives the places whose acks are sent with the same flush.
        next_id: returns random ids, for edges.
        clock: the clock of the task.
        is_transactional: whether the task commits its messages in transactions.
    """

    def __init__(
        self,
        acked: PlacedRuns,
        next_id: Callable[[], int],
        clock: Clock,
        *,
        is_transactional: bool,
    ) -> None:
        self._acked = acked
        self._next_id = next_id
        self._clock = clock
        self._is_transactional = is_transactional
        self._held: list[_Trees] = []  # trees without an init
        self._open: list[_Trees] = []  # trees with an edge of the spout's own
        self._ended: list[IdColumn] = []

    @property
    def are_due(self) -> bool:
        """Whether trees wait for their chains, or have ended since the last `take_ended`."""
        return bool(self._held or self._open or self._ended)

    def inits(self, begun: Sequence[_Placed]) -> list[tuple[IdColumn, IdColumn]]:
        """The roots and vals of the inits to send now; called after the edges of all emitted tuples have joined.

        Args:
            begun: batch and places of new trees.
        """
        now = self._clock()
        held, self._held = [*self._held, *(_Trees(now, *each) for each in begun)], []
        inits: list[tuple[IdColumn, IdColumn]] = []
        for trees in held:
            batch, places = trees.batch, trees.places
            is_open, has_left = batch.has_open(places), batch.children(places) != 0
            if is_open is None:
                self._end(batch, places[~has_left])
                self._begin(batch, places[has_left], inits)
                continue
            self._end(batch, places[~(is_open | has_left)])
            self._begin(batch, places[~is_open & has_left], inits)
            begins = is_open & (has_left | (now - trees.since >= HELD_SECONDS))
            self._begin_open(trees.at(begins), inits)
            if len((rest := trees.at(is_open & ~begins)).places):
                self._held.append(rest)
        still_open, self._open = self._open, []
        for trees in still_open:
            is_open = trees.batch.has_open(trees.places)
            if is_open is None:
                self._end_begun(trees)
                continue
            self._end_begun(trees.at(~is_open))
            self._open.append(trees.at(is_open))
        return inits

    def take_ended(self) -> IdColumn:
        """Shape `(n,)`: the roots of trees that have ended without an acker since the last call."""
        ended, self._ended = self._ended, []
        return np.concatenate(ended) if ended else np.empty(0, np.uint64)

    def _end(self, batch: InputBatch, places: NDArray[np.intp]) -> None:
        if len(places):
            self._ended.append(batch.roots[places])

    def _end_begun(self, trees: _Trees) -> None:
        """Acks the spout's own edges; with transactions, ends the trees without a tuple that has left the chain."""
        batch, places = trees.batch, trees.places
        self._acked.add_all(batch, places)
        if self._is_transactional:
            self._end(batch, places[batch.children(places) == 0])

    @staticmethod
    def _begin(batch: InputBatch, places: NDArray[np.intp], inits: list[tuple[IdColumn, IdColumn]]) -> None:
        if len(places):
            inits.append((batch.roots[places], batch.vals(places)))

    def _begin_open(self, trees: _Trees, inits: list[tuple[IdColumn, IdColumn]]) -> None:
        """Begins trees with an open chain: each gets an edge, as if the spout had sent a tuple to itself."""
        batch, places = trees.batch, trees.places
        if not len(places):
            return
        edges = np.array([self._next_id() for _ in places], np.uint64)
        inits.append((batch.roots[places], batch.begin_open(places, edges)))
        self._open.append(trees)

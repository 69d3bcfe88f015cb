"""The tuples of a task that are not sent, in open packs: adds a tuple, rows, or columns."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spout_sdk.emitting.open_pack import OpenPack
from spout_sdk.records import Headers, Sink
from tuple_tree.input_batch import NO_BATCH, PLACE_MASK, InputBatch, Places

GROWTH: Final = 4  # of the limit of a pack that is full

Place = tuple[InputBatch, int]


class MultiAnchor(NamedTuple):
    """Several places, in different trees, that a tuple is anchored to, and the headers of its trace."""

    places: Sequence[Place]
    trace_context: Headers

    @property
    def emitted(self) -> None:
        """None: a tuple that is anchored to several inputs has no identity, and is not numbered."""


class Part(NamedTuple):
    """Rows of a record batch for one task, the places of their anchors, and how many each has; None if each has one."""

    pack: OpenPack
    rows: Any
    places: Places
    counts: NDArray[np.intp] | None


class Buffer(ABC):
    """Adds tuples to the packs of their receivers, with the places that they are anchored to.

    If that raises, some receivers may have got the tuples: the trees of their places must not complete (`keep_open`).
    `BasicCollector.emit` does the same for one receiver without a call of `add`.

    Args:
        next_id: returns random ids, as seeds of edges.
        sends_inits_first: whether the init of a tree must be delivered before its tuples are sent.
    """

    def __init__(self, sink: Sink, next_id: Callable[[], int], *, sends_inits_first: bool) -> None:
        self._sink = sink
        self._next_id = next_id
        self._inits_first = sends_inits_first
        self._open: dict[OpenPack, None] = {}  # packs with tuples, in order

    def add(self, packs: Sequence[OpenPack], row: Any, batch: InputBatch | MultiAnchor, place: int) -> None:
        """Adds a tuple for each of its receivers; `place` is the last one of a `MultiAnchor`."""
        is_full = False
        try:
            for pack in packs:
                if pack.batch is not batch:
                    self.start_run(pack, batch)
                rows = pack.rows
                rows.append(row)
                pack.places.append(place)
                if len(rows) >= pack.limit:
                    is_full = True
            if is_full:
                self._send_full(packs)
        except BaseException:
            self.keep_open(batch.places if isinstance(batch, MultiAnchor) else ((batch, place),))
            raise

    def add_rows(
        self,
        receivers: OpenPack | Sequence[Sequence[OpenPack]],
        rows: Sequence[Any],
        batch: InputBatch,
        places: Sequence[int],
    ) -> None:
        """Adds tuples with one anchor each: all for one receiver, or each for its own receivers."""
        full: dict[OpenPack, None] = {}
        try:
            if isinstance(receivers, OpenPack):
                if receivers.batch is not batch:
                    self.start_run(receivers, batch)
                receivers.rows += rows
                receivers.places += places
                full[receivers] = None
            else:
                for row, place, packs in zip(rows, places, receivers, strict=True):
                    for pack in packs:
                        if pack.batch is not batch:
                            self.start_run(pack, batch)
                        pack.rows.append(row)
                        pack.places.append(place)
                        if len(pack.rows) >= pack.limit:
                            full[pack] = None
            self._send_full([pack for pack in full if len(pack.rows) >= pack.limit])
        except BaseException:
            self.keep_open((batch, place) for place in places)
            raise

    def add_columns(self, parts: Sequence[Part], batch: InputBatch) -> None:
        """Adds rows of record batches, each for one receiver; if it raises, the caller keeps their trees open."""
        for pack, rows, places, counts in parts:
            self._prepare(pack, batch)
            pack.add_columns(rows, batch, places, counts)
        self._send_full([part.pack for part in parts])

    def start_run(self, pack: OpenPack, batch: InputBatch | MultiAnchor) -> None:
        """Makes a pack ready for a tuple anchored to one place of a batch, or to places that are joined.

        The caller appends the row, and the place or the last of the joined ones.
        """
        self._prepare(pack, batch)
        if not isinstance(batch, MultiAnchor):
            pack.start_run(batch)
            return
        for each, place in batch.places[:-1]:
            pack.add(each, place)
        pack.start_run(batch.places[-1][0])
        pack.batch = NO_BATCH
        pack.multi_anchored.append((pack.size, len(batch.places)))

    def keep_open(self, places: Iterable[Place]) -> None:
        """Keeps the trees of places from completing: joins edges that no tuple carries."""
        for batch, place in places:
            if batch.is_tracked:
                batch.join([place & PLACE_MASK], np.array([self._next_id()], np.uint64))

    def flush_before_trace(self) -> None:
        """Called before a spout emits a tuple of another trace, whose packs are sent alone."""
        if self._inits_first:
            self.flush()

    @abstractmethod
    def flush(self) -> None:
        """Sends everything."""

    @abstractmethod
    def _send(self, pack: OpenPack) -> None:
        """Sends the tuples of a pack before all others, or passes them to a step."""

    def _send_full(self, packs: Sequence[OpenPack]) -> None:
        """Sends packs that are full; called when a tuple is added for all receivers, as its init has all edges."""
        if not packs:
            return
        if self._inits_first and not all(pack.step for pack in packs):
            if any(pack.size >= pack.limit for pack in packs):
                self.flush()
            return
        for pack in packs:
            if pack.size < pack.limit:
                continue
            if pack.limit < pack.fitting and pack.step is None and self._sink.is_congested():
                pack.limit = min(pack.fitting, GROWTH * pack.limit)
            else:
                self._send(pack)

    def _prepare(self, pack: OpenPack, batch: InputBatch | MultiAnchor) -> None:
        if pack.trace_context != (trace_context := batch.trace_context):
            if pack.size and self._inits_first:
                if batch.__class__ is InputBatch and batch.is_tracked:
                    # Its init would not have the edges of all receivers.
                    raise AssertionError("a spout of another trace flushes before it emits")
                self.flush()
            elif pack.size:
                self._send(pack)
            pack.trace_context = trace_context
        self._open[pack] = None

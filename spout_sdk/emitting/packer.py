"""The tuples that a task has emitted and not yet sent, packed into a record for each task and stream.

A pack is sent when it is full, and when the task flushes: its input is idle, or what is buffered has lingered.
"""

from array import array
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np

from spout_sdk.records import Headers, Sink
from spout_sdk.statistics.stats import Counters
from tuple_tree.anchors import Columns, Edges, concatenated
from tuple_tree.ids import IdColumn
from tuple_tree.packs import Pack, packs
from tuple_tree.payloads import MAX_BYTES, PayloadCodec

_FIRST_LIMIT: Final = 64
_GROWTH: Final = 4

# Called when tuples are not delivered or do not fit their stream: roots, number of tuples, error, message if any.
Undelivered = Callable[[Any, int, Any, Any], None]


@dataclass(slots=True, eq=False, repr=False)
class OpenPack:
    """Tuples of one stream for one task that are not sent yet, of at most `max_rows` a record."""

    topic: str
    task: int
    codec: PayloadCodec
    source: tuple[str, bytes]
    max_rows: InitVar[int]
    most: int = field(init=False)
    limit: int = field(init=False)  # how many rows make it full, at the moment; 1 if a record carries one tuple
    rows: list[Any] = field(default_factory=list)
    # Tuples of an `ArrowBolt`, instead of `rows`, `ids` and `counts`.
    batches: list[Columns] = field(default_factory=list)
    batched: int = 0
    # Root and edge, in turn, of each anchor of each tuple that has edges.
    ids: "array[int]" = field(default_factory=partial(array, "Q"))
    # What the last tuples, which have no edges yet, are anchored to: their input's index in its record; a spout's root.
    owners: list[int] = field(default_factory=list)
    counts: list[int] | None = None  # how many anchors each tuple has; None as long as each has one
    key: bytes | None = None  # of its last tuple; that of the record, where the codec has one tuple a record
    trace_context: Headers = field(default_factory=list)
    is_special: bool = False  # whether there are `counts` or a `trace_context`

    def __post_init__(self, max_rows: int) -> None:
        self.most = min(max_rows, self.codec.max_rows)
        self.limit = min(_FIRST_LIMIT, self.most)

    def add_ids(self, roots: IdColumn, edges: IdColumn) -> None:
        self.ids.frombytes(np.column_stack((roots, edges)).tobytes())


class Packer:
    """Packs and sends what a task emits."""

    def __init__(self, sink: Sink, counters: Counters, undelivered: Undelivered) -> None:
        self._counters = counters
        self._send = sink.send
        self._undelivered = undelivered
        self.before_send: Callable[[], None] = lambda: None
        self.assign_edges: Callable[[OpenPack], None] = _no_owners  # draws the edges of tuples that have none
        # Those with tuples, in order; and some that were sent because they were full.
        self._open: dict[OpenPack, None] = {}
        self._sent = 0

    def add(self, pack: OpenPack, row: Any, edges: Edges, key: bytes | None, trace_context: Headers) -> None:
        """Adds a tuple, as its codec made it, with root → edge of this delivery and the record's key and headers."""
        if pack.owners:
            self.assign_edges(pack)
        anchors = len(edges)
        if pack.rows and trace_context != pack.trace_context:
            self.send(pack)
        pack.trace_context = trace_context
        if pack.counts is not None:
            pack.counts.append(anchors)
        elif anchors != 1:
            pack.counts = [1] * len(pack.rows) + [anchors]
        for pair in edges.items():
            pack.ids.extend(pair)
        pack.key = key
        pack.rows.append(row)
        pack.is_special = pack.counts is not None or bool(trace_context)
        self.added(pack)

    def add_columns(self, pack: OpenPack, columns: Columns, trace_context: Headers) -> None:
        """Adds the tuples of a record batch to a pack that has no others."""
        if pack.batches and trace_context != pack.trace_context:
            self.send(pack)
        pack.trace_context = trace_context
        pack.batches.append(columns)
        pack.batched += len(columns.rows)
        self._open[pack] = None
        if pack.batched >= pack.limit:
            self.send(pack)

    def open(self, pack: OpenPack) -> None:
        """Makes a pack ready for tuples of one tree each and no trace, which the caller appends without edges."""
        if pack.is_special:
            self.send(pack)
        self._open[pack] = None

    def assign_all(self) -> None:
        """Draws the edges of all tuples that have none."""
        for pack in self._open:
            if pack.owners:
                self.assign_edges(pack)

    def added(self, pack: OpenPack) -> None:
        """To be called after the first tuple of a pack, and after that which makes it full: then it is sent."""
        rows = len(pack.rows)
        if rows >= pack.limit:
            self.send(pack)
        elif rows == 1:
            self._open[pack] = None

    @property
    def is_empty(self) -> bool:
        return not self._open

    def flush(self) -> None:
        while self._open:
            # A send may report deliveries, and an ack then flushes all that is not sent yet, before its batch.
            pack = next(iter(self._open))
            del self._open[pack]
            if pack.rows or pack.batches:
                self.send(pack)

    @property
    def emitted(self) -> int:
        return self._sent + sum(len(pack.rows) + pack.batched for pack in self._open)

    def send(self, pack: OpenPack) -> None:
        if pack.owners:
            self.assign_edges(pack)
        self.before_send()
        if pack.batches:
            whole = concatenated(pack.batches)
            pack.batches, pack.batched = [], 0
        else:
            ids: Any = pack.ids
            whole = Columns(pack.rows, ids, None if pack.counts is None else np.array(pack.counts))
            pack.rows, pack.ids, pack.counts = [], array("Q"), None
        self._sent += len(whole.rows)
        self._counters.transferred += len(whole.rows)
        for made in packs(whole, pack.codec.encode, pack.most):
            self._send_pack(pack, made)
        pack.trace_context, pack.is_special = [], False

    def _send_pack(self, pack: OpenPack, made: Pack) -> None:
        ids, rows = made.part.ids, len(made.part.rows)
        if made.error is not None:
            self._undelivered(ids[::2], rows, made.error, None)
            return
        if pack.most > 1:
            pack.limit = max(1, min(pack.most, _GROWTH * pack.limit, MAX_BYTES * rows // made.size))
        headers: Headers = [*made.anchors, pack.source, *pack.trace_context]
        undelivered = partial(self._undelivered, ids[::2], rows)
        key = pack.key if pack.codec.max_rows == 1 else None
        self._send(pack.topic, pack.task, key, made.payload, headers, undelivered)


def _no_owners(_pack: OpenPack) -> None:
    raise AssertionError("a tuple without an edge where each is given one when it is emitted")

"""The tuples of one stream for one task that are not sent yet."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from spout_sdk.api.context import TaskId
from spout_sdk.records import Headers
from spout_sdk.statistics.stats import Counters
from tuple_tree.anchors import AnchorColumns, Columns
from tuple_tree.edges import edge_column
from tuple_tree.identities import IdentityColumns
from tuple_tree.ids import IdColumn
from tuple_tree.input_batch import NO_BATCH, NUMBER_SHIFT, PLACE_MASK, InputBatch, PlacedRuns, Places, as_column
from tuple_tree.payloads import LocalCodec, PayloadCodec

_FIRST_LIMIT: Final = 64


@dataclass(frozen=True, slots=True)
class PlacedRows:
    """Tuples and the places of their anchors.

    Attributes:
        rows: a list of rows, or a record batch.
        runs: batch and places of the anchors, in order; only anchors that belong to a tree.
        counts: shape `(n,)`: how many places each tuple has; None if each has one place, or none has any.
        identities: the identity of each tuple; None without identities.
    """

    rows: Any
    runs: Sequence[tuple[InputBatch, NDArray[np.intp]]] = ()
    counts: NDArray[np.intp] | None = None
    identities: IdentityColumns | None = None

    @property
    def starts(self) -> NDArray[np.intp] | None:
        """Shape `(n + 1,)`: where the places of each tuple begin; None if each has one."""
        return None if self.counts is None else np.concatenate(([0], np.cumsum(self.counts)))

    def spread(self, of_rows: IdColumn) -> IdColumn:
        """Repeats the value of each tuple, shape `(n,)`, for each of its places."""
        return of_rows if self.counts is None else np.repeat(of_rows, self.counts)


class Takes(Protocol):
    """A step that receives tuples in the task that emits them."""

    def take(self, pack: "OpenPack") -> None:
        """Removes the tuples from the pack."""


class OpenPack(PlacedRuns):
    """Tuples for one task, with the places of the inputs that they are anchored to.

    Each tuple has one place, except the tuples in `multi_anchored`: their row, and how many places they have. An input
    without a tree has a place, too, in a batch that is not tracked. A place of an identified batch has the number of
    the emit above `NUMBER_SHIFT`.

    Attributes:
        is_identified: whether its records have the identities of its tuples.
        copy: a number in identities that distinguishes its tuples from their copies for other tasks.
        limit: the number of rows at which it is full now.
        fitting: the largest limit: how many rows fit a record, by the size of the last ones.
        most: the largest number of rows in a record.
        most_rows: the largest number of buffered rows.
        keys: row → key of its record, if the codec has one tuple per record; the last may be for the next row.
        counters: the counters of the component that emits.
        step: the step of the same task that receives its tuples; None if they are sent to Kafka.
    """

    __slots__ = (
        *("batched", "codec", "columns", "copy", "counters", "fitting", "is_identified", "keys", "limit"),
        *("most", "most_rows", "multi_anchored", "rows", "source", "step", "task", "topic", "trace_context"),
    )

    def __init__(
        self,
        topic: str,
        task: int,
        codec: PayloadCodec | LocalCodec,
        source: tuple[str, bytes],
        max_rows: int,
        counters: Counters,
        *,
        is_identified: bool = False,
        copy: int = 0,
    ) -> None:
        super().__init__()
        self.is_identified, self.copy = is_identified, copy
        self.topic, self.task, self.codec, self.source = topic, task, codec, source
        self.most, self.most_rows = min(max_rows, codec.max_rows), max_rows
        self.limit = self.fitting = min(_FIRST_LIMIT, max_rows)
        self.rows: list[Any] = []
        self.columns: list[Any] = []  # record batches of an `ArrowBolt`, instead of `rows`
        self.batched = 0
        self.multi_anchored: list[tuple[int, int]] = []
        self.keys: dict[int, bytes] = {}
        self.trace_context: Headers = []
        self.counters = counters
        self.step: Takes | None = None

    @property
    def receiver(self) -> TaskId:
        """The task that receives its tuples."""
        return TaskId(self.topic.rpartition(".")[2], self.task)

    @property
    def size(self) -> int:
        """How many tuples it has."""
        return len(self.rows) + self.batched

    def add_columns(self, part: Any, batch: InputBatch, places: Places, counts: Any) -> None:
        """Adds the rows of a record batch; `counts` says how many places each has, None if each has one."""
        if counts is not None:
            rows = np.flatnonzero(counts != 1)
            self.multi_anchored += zip((rows + self.batched).tolist(), counts[rows].tolist(), strict=True)
        self.columns.append(part)
        self.batched += part.num_rows
        self.add_all(batch, places)

    def seal(self, new_seed: Callable[[], int]) -> Columns:
        """Removes all tuples, and joins a new edge for each to the inputs that it is anchored to.

        If it raises, because there is no memory, nothing is removed, and edges that were joined are never acked.
        """
        placed = self._placed()
        sealed = Columns(placed.rows, AnchorColumns.none(len(placed.rows)))
        if placed.runs:
            seed = new_seed()
            edges = placed.spread(edge_column(seed, 0, len(placed.rows)))
            begin = 0
            for batch, places in placed.runs:
                batch.join(places, edges[begin : begin + len(places)])
                begin += len(places)
            roots = np.concatenate([batch.roots[places] for batch, places in placed.runs])
            sealed = Columns(placed.rows, AnchorColumns(roots, placed.starts, seed), placed.identities)
        self._clear()
        return sealed

    def take_rows(self) -> "PlacedRows":
        """Removes all tuples without creating edges."""
        placed = self._placed()
        self._clear()
        return placed

    def take_each(self) -> list[tuple[Any, bytes | None, list[tuple[InputBatch, int]]]]:
        """Removes all tuples, and returns the row, or a record batch with it, the key and the places of each."""
        rows = self.rows or [each.slice(at, 1) for each in self.columns for at in range(each.num_rows)]
        counts, keys = dict(self.multi_anchored), self.take_keys(len(rows))
        places = ((batch, int(place)) for batch, run in self.runs for place in run)
        each = [(row, keys.get(at), [*islice(places, counts.get(at, 1))]) for at, row in enumerate(rows)]
        self._clear()
        return each

    def put(self, row: Any, key: bytes | None, places: Sequence[tuple[InputBatch, int]]) -> None:
        """Adds a tuple that was taken; one that is about to be added keeps its key."""
        following = self.keys.pop(self.size, None)
        if key is not None:
            self.keys[self.size] = key
        if following is not None:
            self.keys[self.size + 1] = following
        if len(places) != 1:
            self.multi_anchored.append((self.size, len(places)))
        if isinstance(row, tuple | bytes):
            self.rows.append(row)
        else:
            self.columns.append(row)
            self.batched += 1
        for batch, place in places:
            self.add(batch, place)

    def _clear(self) -> None:
        self.rows, self.columns, self.batched = [], [], 0
        self.runs, self.multi_anchored, self.batch = [], [], NO_BATCH

    def _placed(self) -> "PlacedRows":
        """All tuples, and the places of the anchors that belong to a tree."""
        rows: Any = self.rows
        if self.columns:
            import pyarrow as pa  # loaded already, as there are columns

            rows = self.columns[0] if len(self.columns) == 1 else pa.concat_batches(self.columns)
        runs, multi_anchored = self.runs, self.multi_anchored
        if not any(batch.is_tracked for batch, _ in runs):
            return PlacedRows(rows)
        counts: Any = None  # of the places of each tuple; None if each has one
        places_of_rows = len(rows)
        if multi_anchored:
            counts = np.ones(len(rows), np.intp)
            counts[[row for row, _ in multi_anchored]] = [count for _, count in multi_anchored]
            places_of_rows = int(counts.sum())
        tracked, begin = [], 0
        has_identities = self.is_identified and any(batch.is_identified for batch, _ in runs)
        identities = IdentityColumns.none(places_of_rows) if has_identities else None
        for batch, places in runs:
            end = begin + len(places)
            if batch.is_tracked:
                column = as_column(places)
                if batch.is_identified:
                    numbers, column = (column >> NUMBER_SHIFT).astype(np.uint64), column & PLACE_MASK
                    if identities is not None:
                        of = batch.identities(column, numbers + np.uint64(self.copy << NUMBER_SHIFT))
                        identities.positions[begin:end], identities.paths[begin:end] = of.positions, of.paths
                tracked.append((batch, column))
            begin = end
        if identities is not None and multi_anchored:
            identities = self._of_rows(identities, counts)
        if not all(batch.is_tracked for batch, _ in runs):
            is_anchor = np.repeat([batch.is_tracked for batch, _ in runs], [len(places) for _, places in runs])
            of_rows = np.repeat(np.arange(len(rows)), 1 if counts is None else counts)
            counts = np.bincount(of_rows[is_anchor], minlength=len(rows))
        return PlacedRows(rows, tracked, counts, identities)

    def _of_rows(self, identities: IdentityColumns, counts: Any) -> IdentityColumns:
        """The identity of each row, from the identities of its places; the rows in `multi_anchored` have none."""
        is_multi_anchored = np.zeros(len(counts), np.bool_)
        is_multi_anchored[[row for row, _ in self.multi_anchored]] = True
        of_rows, is_single = IdentityColumns.none(len(counts)), np.repeat(~is_multi_anchored, counts)
        of_rows.positions[~is_multi_anchored] = identities.positions[is_single]
        of_rows.paths[~is_multi_anchored] = identities.paths[is_single]
        return of_rows

    def take_keys(self, rows: int) -> dict[int, bytes]:
        """Removes the keys of the first rows; a tuple that is about to be added keeps its own."""
        keys, self.keys = self.keys, {}
        if (following := keys.pop(rows, None)) is not None:
            self.keys[0] = following
        return keys

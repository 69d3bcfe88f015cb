"""Rows into packs, of bolts and of spouts alike, which tasks send. Runs on executors.

Each delivery of a row has an edge, which follows from a seed that the attempt of a task draws, and for each root of the
row an entry (root, edge) joins it to the tree. The same attempt writes both, and is a writer of its own; see ADR 22.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from itertools import repeat
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_jobs.entries import AttemptEntries, Record, Send, dead_letter, new_session
from spark_jobs.frames import FrameCodec
from spark_jobs.transform import FAIL, STREAM, TRACKING, roots_of
from tuple_tree.anchors import SOURCE_HEADER, AnchorColumns, Columns, RootColumns, Rows, concatenated
from tuple_tree.components import BoltManifest, Component, SpoutManifest
from tuple_tree.edges import new_seed
from tuple_tree.errors import WireError
from tuple_tree.ids import IdColumn
from tuple_tree.manifest import Manifest
from tuple_tree.names import tuples_topic
from tuple_tree.packs import MAX_ROWS, packs
from tuple_tree.routing import Chooser, chooser, grouping_key
from tuple_tree.streams import StreamDeclaration

LARGEST: Final = 950_000
"""Bytes of a record that Kafka takes unless set otherwise, with room for its headers."""

_CHUNK: Final = 4 * 2**20
"""Bytes of packs that a task sends together, about; it makes no more until they are delivered."""


def without(rows: Rows, some: Collection[int]) -> Rows:
    """The rows that are not among some; those are few."""
    return rows[~np.isin(rows, list(some))] if some else rows


class Packing:
    """Rows of one attempt of a task, on their way into records of `largest` bytes at most, which `send` delivers.

    A bolt's entries are sent with its tuples. Those of a spout are inits, which are delivered before their tuples
    leave; see ADR 23.

    Attributes:
        counts: rows that were `emitted`, their deliveries that were `transferred`, `failed` rows and `dead` tuples.
    """

    def __init__(self, manifest: Manifest, component: Component, send: Send, largest: int = LARGEST) -> None:
        self.manifest = manifest
        self.component = component
        self.largest = largest
        self.counts = Counter[str]()
        self.entries = AttemptEntries(manifest, component)
        self.streams = {stream.name: _StreamOut(self, stream) for stream in component.streams}
        self._send = send
        self._records: list[Record] = []
        self._size = 0

    def run(self, batches: Iterable[Any], add: Callable[[Any], object]) -> Counter[str]:
        """Adds batches, and returns the counts when all that came of them is delivered."""
        for batch in batches:
            add(batch)
            if self._size >= _CHUNK:
                self._flush()
        for stream in self.streams.values():
            stream.end()
        self._flush()
        return self.counts

    def _flush(self) -> None:
        records, self._records, self._size = self._records, [], 0
        entries = self.entries.take()
        if isinstance(self.component, SpoutManifest):
            self._deliver(entries)
            self._deliver(records)
        else:
            self._deliver(records + entries)

    def _deliver(self, records: Sequence[Record]) -> None:
        if records:
            self._send(records)

    def emit(self, name: str, batch: Any, roots: RootColumns, rows: Rows) -> dict[int, str]:
        """Emits some rows of a batch on a stream; `roots` are those of all its rows.

        Returns rows that do not fit the stream, and why.
        """
        return self.streams[name].emit(batch, roots, rows) if len(rows) else {}

    def begin(self, batch: Any, roots: IdColumn, rows: Rows) -> dict[int, str]:
        """As `emit`, on the only stream of a spout, each row under its root."""
        (name,) = self.streams
        unfit = self.emit(name, batch, RootColumns(roots, None), rows)
        # A tuple without receivers begins a tree, too, which is complete at once.
        begun = roots[without(rows, unfit)]
        self.entries.add(begun, np.zeros(len(begun), np.uint64))
        return unfit

    def add(self, record: Record, size: int | None = None) -> None:
        """Adds a record of any topic; its size is that of its value unless given."""
        self._records.append(record)
        self._size += len(record[3] or b"") if size is None else size


class _StreamOut:
    """A stream on its way out of one attempt, with the inboxes of its receivers."""

    def __init__(self, packing: Packing, stream: StreamDeclaration) -> None:
        self.packing = packing
        self.codec = FrameCodec(stream)
        self.source = f"{packing.component.name}/{stream.name}".encode()
        self._routes: list[tuple[Chooser, list[_Inbox]]] = []
        start = int.from_bytes(new_session()[:4])
        for bolt in packing.manifest.bolts:
            topic = tuples_topic(packing.manifest.topology, bolt.name)
            for each in bolt.subscriptions:
                if (each.source, each.stream) != (packing.component.name, stream.name):
                    continue
                grouping = chooser(each, bolt.tasks, stream.field_names, start)
                keys = [stream.field_names.index(name) for name in each.fields]
                self._routes.append((grouping, [_Inbox(self, topic, task, keys) for task in range(bolt.tasks)]))

    def emit(self, batch: Any, roots: RootColumns, rows: Rows) -> dict[int, str]:
        packing = self.packing
        chosen = batch.select(self.codec.schema.names)
        if len(rows) < batch.num_rows:
            chosen = chosen.take(pa.array(rows))
        columns, errors = self.codec.pack(chosen)
        unfit = {int(rows[place]): message for place, message in errors.items()}
        rows = np.delete(rows, list(errors))
        packing.counts["emitted"] += len(rows)
        for grouping, inboxes in self._routes:
            for task, share in grouping.choose_rows(self.codec.packs, columns):
                part = columns[share] if isinstance(share, slice) else columns.take(pa.array(share))
                packing.counts["transferred"] += part.num_rows
                inboxes[task].add(part, roots.take(rows[share]))
        return unfit

    def end(self) -> None:
        """Writes what is left."""
        for _, inboxes in self._routes:
            for inbox in inboxes:
                inbox.write()


class _Inbox:
    """Rows of one stream for one task of a bolt that are not written yet."""

    def __init__(self, stream: _StreamOut, topic: str, task: int, keys: Sequence[int]) -> None:
        self._stream = stream
        self._topic = topic
        self._task = task
        self._keys = keys  # the fields that the bolt groups by, if it does
        self._parts: list[Any] = []
        self._roots: list[RootColumns] = []
        self._seed = 0
        self._rows = 0

    def add(self, part: Any, roots: RootColumns) -> None:
        if not self._rows:
            self._seed = new_seed()
        # Before the rows are written, since an init is sent with the edges of all rows of its tree.
        added = AnchorColumns(roots.roots, roots.starts, self._seed, self._rows)
        self._stream.packing.entries.add(added.roots, added.edges)
        self._parts.append(part)
        self._roots.append(roots)
        self._rows += part.num_rows
        if self._rows >= MAX_ROWS:
            self.write()

    def write(self) -> None:
        if not self._rows:
            return
        roots = concatenated(self._roots)
        anchors = AnchorColumns(roots.roots, roots.starts, self._seed)
        whole = Columns(pa.concat_batches(self._parts), anchors)
        self._parts, self._roots, self._rows = [], [], 0
        codec = self._stream.codec
        if codec.is_packed:
            for made in packs(whole, codec.packs.encode, MAX_ROWS):
                if made.error is not None:
                    raise made.error
                self._add(None, made.payload, made.part.anchors, made.headers)
            return
        keys = [codec.packs.column(whole.rows, place) for place in self._keys]
        record_keys = map(grouping_key, zip(*keys, strict=True)) if keys else repeat(None)
        for row, (key, payload) in enumerate(zip(record_keys, codec.payloads(whole.rows), strict=False)):
            alone = anchors.part(row, row + 1)
            self._add(key, payload, alone, alone.headers())

    def _add(
        self, key: bytes | None, payload: bytes, anchors: AnchorColumns, of_anchors: Sequence[tuple[str, bytes]]
    ) -> None:
        packing = self._stream.packing
        headers = [*(of_anchors if packing.manifest.acking else ()), (SOURCE_HEADER, self._stream.source)]
        size = len(payload) + sum(len(value) for _, value in of_anchors)
        if size <= packing.largest:
            packing.add((self._topic, self._task, key, payload, headers), size)
            return
        # A tuple that no record takes: its dead letter names only its destination.
        by, topology, place = packing.component.name, packing.manifest.topology, (self._topic, self._task, -1)
        takes = f"takes {size:,} bytes with its anchors, and a record {packing.largest:,}"
        why = WireError("too-large", f"a tuple for {self._topic}[{self._task}] {takes}")
        packing.add(dead_letter(topology, f"{by}/{self._task}", place, why))
        packing.counts["dead"] += 1
        packing.entries.fail(anchors.roots, f"{by}: {why.detail}")


def pack(
    manifest: Manifest, bolt: BoltManifest, send: Send, batches: Iterable[Any], largest: int = LARGEST
) -> Counter[str]:
    """Sends the rows of `transform` as tuples, as write 1 of a bolt; returns the counts of a `Packing`.

    A tuple larger than `largest` bytes is a dead letter, and fails its trees.
    """
    packing = Packing(manifest, bolt, send, largest)
    return packing.run(batches, partial(_add_result, packing))


def _add_result(packing: Packing, batch: Any) -> None:
    roots = roots_of(batch.column(TRACKING))
    rows = np.arange(batch.num_rows)
    unfit: dict[int, str] = {}
    if FAIL in batch.schema.names:
        unfit = {row: why for row, why in enumerate(batch.column(FAIL).to_pylist()) if why is not None}
        rows = without(rows, unfit)
    streams = list(packing.streams)
    if len(streams) == 1:
        unfit |= packing.emit(streams[0], batch, roots, rows)
    else:
        names = np.array(batch.column(STREAM).to_pylist(), object)[rows]
        for name in streams:
            unfit |= packing.emit(name, batch, roots, rows[names == name])
        for row in rows[~np.isin(names, streams)].tolist():
            unfit[row] = f"{STREAM} is {batch.column(STREAM)[row].as_py()!r}, which is not a stream"
    packing.counts["failed"] += len(unfit)
    for row, message in unfit.items():
        packing.entries.fail(roots.take(np.array([row])).roots, message)

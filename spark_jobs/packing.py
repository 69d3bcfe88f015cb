"""Rows into packs, of bolts and of spouts alike. Runs on executors.

Each delivery of a row gets a random edge, and for each root of the row an entry (root, edge) joins it to the tree. The
same attempt of a task writes both, and is a writer of its own; see ADR 22.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_jobs.entries import AckLog, Entries, Record, Send, dead_letter, new_session, record_rows
from spark_jobs.frames import FrameCodec, StreamFrame
from spark_jobs.tracking import FAIL, STREAM, TRACKING, roots_of
from tuple_tree.anchors import (
    ANCHOR_COUNTS_HEADER,
    ANCHORS_HEADER,
    SOURCE_HEADER,
    AnchorColumns,
    Columns,
    Rows,
    concatenated,
    pack_counts,
)
from tuple_tree.ids import ID_BYTES, IdColumn, pack_ids, random_column
from tuple_tree.manifest import Manifest, Subscription
from tuple_tree.messages import SpoutAddress
from tuple_tree.names import acks_topic, tuples_topic
from tuple_tree.payloads import MAX_BYTES, MAX_ROWS
from tuple_tree.routing import ChooseRows, choose_rows_for, grouping_key

LARGEST: Final = 950_000
"""Bytes of a record that Kafka takes unless set otherwise, with room for its headers."""

_HELD: Final = 32 * 2**20
"""Bytes of a task's packs that wait for its end."""

Route = tuple[str, int, Subscription]
"""Bolt, its tasks, its subscription."""

Count = Callable[[str, int], None]


def without(rows: Rows, some: Collection[int]) -> Rows:
    """The rows that are not among some; those are few."""
    return rows[~np.isin(rows, list(some))] if some else rows


def not_counted(_name: str, _more: int) -> None:
    pass


@dataclass(frozen=True)
class Outputs:
    """What a component emits; picklable."""

    topology: str
    component: str
    streams: Mapping[str, tuple[StreamFrame, Sequence[Route]]]  # with their receivers, by name
    log: AckLog | None  # None where trees are not followed

    @classmethod
    def of(cls, manifest: Manifest, component: str) -> "Outputs":
        streams = {
            stream.name: (
                StreamFrame(stream),
                [
                    (bolt.name, bolt.tasks, subscription)
                    for bolt in manifest.bolts
                    for subscription in bolt.subscriptions
                    if (subscription.source, subscription.stream) == (component, stream.name)
                ],
            )
            for stream in manifest.component(component).streams
        }
        log = AckLog(acks_topic(manifest.topology), manifest.ack_partitions) if manifest.acking else None
        return cls(manifest.topology, component, streams, log)


@dataclass(frozen=True)
class Pack:
    """Makes records of the rows of `transform`, for `mapInArrow`, as write 1 of a bolt.

    A tuple larger than `largest` bytes is a dead letter, and fails its trees.
    """

    outputs: Outputs
    largest: int = LARGEST
    count: Count = field(default=not_counted)

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        entries = Entries(self.outputs.log, self.outputs.component)
        packing = Packing(self.outputs, entries, self.largest, self.count)
        for batch in batches:
            self._add(packing, entries, batch)
            # Mostly a task fails because `transform` raises: what was not written by then leaves no tree open.
            if packing.is_full:
                yield record_rows(packing.take())
        packing.end()
        if records := [*packing.take(), *entries.take()]:
            yield record_rows(records)

    def _add(self, packing: "Packing", entries: Entries, batch: Any) -> None:
        anchors = roots_of(batch.column(TRACKING))
        rows = np.arange(batch.num_rows)
        unfit: dict[int, str] = {}
        if FAIL in batch.schema.names:
            messages = batch.column(FAIL).to_pylist()
            unfit = {row: messages[row] for row in rows.tolist() if messages[row] is not None}
            rows = without(rows, unfit)
        streams = list(self.outputs.streams)
        if len(streams) == 1:
            unfit |= packing.emit(streams[0], batch, anchors, rows)
        elif streams:
            names = np.array(batch.column(STREAM).to_pylist(), object)[rows]
            for name in streams:
                unfit |= packing.emit(name, batch, anchors, rows[names == name])
            for row in rows[~np.isin(names, streams)].tolist():
                unfit[row] = f"{STREAM} is {batch.column(STREAM)[row].as_py()!r}, which is no stream"
        else:
            self.count("emitted", len(rows))
        self.count("failed", len(unfit))
        for row, message in unfit.items():
            entries.fail(anchors.take(np.array([row]))[0], message)


class Packing:
    """Rows of one attempt of a task, on their way into records of `largest` bytes at most.

    `count` is called with how many rows were `emitted`, and how many deliveries were `transferred`.
    """

    def __init__(self, outputs: Outputs, entries: Entries, largest: int, count: Count) -> None:
        self.outputs = outputs
        self.largest = largest
        self._entries = entries
        self._count = count
        self._streams = {name: _StreamOut(outputs, name) for name in outputs.streams}
        self._inboxes: dict[tuple[str, str, int], _Inbox] = {}
        self._records: list[Record] = []
        self._size = 0

    @property
    def is_full(self) -> bool:
        """Whether as much waits as a task should hold."""
        return self._size >= _HELD

    def take(self) -> list[Record]:
        """The records since the last call."""
        records, self._records, self._size = self._records, [], 0
        return records

    def emit(self, name: str, batch: Any, anchors: AnchorColumns, rows: Rows) -> dict[int, str]:
        """Emits some rows of a batch on a stream; `anchors` are the roots of all its rows.

        Returns those that do not fit the stream, and why.
        """
        if not len(rows):
            return {}
        stream = self._streams[name]
        columns, unfit = stream.columns(batch, rows)
        refused = {int(rows[place]): message for place, message in unfit.items()}
        rows = np.delete(rows, list(unfit))
        self._count("emitted", len(rows))
        for bolt, choose in stream.routes:
            for task, share in choose(columns):
                part = columns[share] if isinstance(share, slice) else columns.take(pa.array(share))
                roots, _, counts = anchors.take(rows[share])
                edges = random_column(part.num_rows)
                spread = edges if counts is None else np.repeat(edges, counts)
                ids = np.empty(2 * len(roots), np.uint64)
                ids[::2], ids[1::2] = roots, spread
                self._entries.add(roots, spread)
                self._count("transferred", part.num_rows)
                inbox = self._inboxes.get((name, bolt, task))
                if inbox is None:
                    inbox = self._inboxes[name, bolt, task] = _Inbox(self, stream, bolt, task)
                inbox.add(Columns(part, ids, counts))
        return refused

    def end(self) -> None:
        """Writes what is left."""
        for inbox in self._inboxes.values():
            inbox.write()

    def add(self, record: Record, size: int | None = None) -> None:
        """Adds a record of any topic; its size is that of its value unless given."""
        self._records.append(record)
        self._size += len(record[3] or b"") if size is None else size

    def set_aside(self, topic: str, task: int, size: int, roots: IdColumn) -> None:
        """A tuple that no record takes: its dead letter tells only where it was to go."""
        by = self.outputs.component
        detail = f"a tuple for {topic}[{task}] takes {size:,} bytes with its anchors, and a record {self.largest:,}"
        self.add(
            dead_letter(self.outputs.topology, (topic, task, -1), reason="too-large", detail=detail, by=f"{by}/{task}")
        )
        self._count("dead", 1)
        self._entries.fail(roots, f"{by}: {detail}")


class Roots:
    """Rows of a spout, which begin trees, of one attempt of a task; inits are sent before they leave, see ADR 23."""

    def __init__(self, outputs: Outputs, spout: SpoutAddress, send: Send, largest: int, count: Count) -> None:
        (self._stream,) = outputs.streams
        self._entries = Entries(outputs.log, outputs.component, spout)
        self._send = send
        self.packing = Packing(outputs, self._entries, largest, count)

    def records(self, batches: Iterable[Any], add: Callable[[Any], object]) -> Iterator[Any]:
        """Adds batches, and yields what may be written as rows of Spark's Kafka sink."""
        for batch in batches:
            add(batch)
            if self.packing.is_full:
                yield record_rows(self._take())
        self.packing.end()
        if records := self._take():
            yield record_rows(records)

    def emit(self, batch: Any, roots: IdColumn, rows: Rows) -> dict[int, str]:
        """Emits rows of a batch, each under its root; returns those that do not fit the stream, and why."""
        none = np.zeros(len(roots), np.uint64)
        unfit = self.packing.emit(self._stream, batch, AnchorColumns(roots, none, None), rows)
        # A tuple without receivers begins a tree, too, which is complete at once.
        begun = roots[without(rows, unfit)]
        self._entries.add(begun, np.zeros(len(begun), np.uint64))
        return unfit

    def _take(self) -> list[Record]:
        """Records that may be written now: the inits of their trees are delivered."""
        if inits := self._entries.take():
            self._send(inits)
        return self.packing.take()


class _Inbox:
    """Rows of one stream for one task of a bolt that are not written yet."""

    def __init__(self, packing: Packing, stream: "_StreamOut", bolt: str, task: int) -> None:
        self._packing = packing
        self._stream = stream
        self._bolt = bolt
        self._task = task
        self._topic = tuples_topic(packing.outputs.topology, bolt)
        self._columns: list[Columns] = []
        self._rows = 0

    def add(self, columns: Columns) -> None:
        self._columns.append(columns)
        self._rows += len(columns.rows)
        if self._rows >= MAX_ROWS:
            self.write()

    def write(self) -> None:
        if not self._rows:
            return
        whole = concatenated(self._columns)
        self._columns, self._rows = [], 0
        if self._stream.codec.is_packed:
            for begin in range(0, len(whole.rows), MAX_ROWS):
                self._write_pack(whole.part(begin, begin + MAX_ROWS))
            return
        keys = self._stream.keys(self._bolt, whole.rows)
        for row, payload in enumerate(self._stream.codec.payloads(whole.rows)):
            has_one = whole.counts is None
            part = Columns(None, whole.ids[2 * row : 2 * row + 2], None) if has_one else whole.part(row, row + 1)
            self._send(keys[row], payload, part)

    def _write_pack(self, part: Columns) -> None:
        payload = self._stream.codec.packs.encode(part.rows)
        rows = len(part.rows)
        if rows > 1 and len(payload) + ID_BYTES * len(part.ids) > MAX_BYTES:
            self._write_pack(part.part(0, rows // 2))
            self._write_pack(part.part(rows // 2, rows))
        else:
            self._send(None, payload, part)

    def _send(self, key: bytes | None, payload: bytes, part: Columns) -> None:
        headers: list[tuple[str, bytes]] = []
        if self._packing.outputs.log is not None and len(part.ids):
            headers.append((ANCHORS_HEADER, pack_ids(part.ids)))
            if part.counts is not None:
                headers.append((ANCHOR_COUNTS_HEADER, pack_counts(part.counts.tolist())))
        headers.append((SOURCE_HEADER, self._stream.source))
        size = len(payload) + ID_BYTES * len(part.ids)
        if size > self._packing.largest:
            self._packing.set_aside(self._topic, self._task, size, part.ids[::2])
        else:
            self._packing.add((self._topic, self._task, key, payload, headers), size)


class _StreamOut:
    """A stream on its way out of one attempt."""

    def __init__(self, outputs: Outputs, name: str) -> None:
        frame, routes = outputs.streams[name]
        self.codec = FrameCodec(frame)
        self.source = f"{outputs.component}/{name}".encode()
        self._frame = frame
        self._names = frame.schema.names
        self._required = [field for field, nullable in zip(self._names, frame.nullable, strict=True) if not nullable]
        self._keys = {bolt: subscription.fields for bolt, _, subscription in routes}
        self.routes: list[tuple[str, ChooseRows]] = []
        start = int.from_bytes(new_session()[:4])
        for bolt, tasks, subscription in routes:
            choose = choose_rows_for(self.codec.packs, subscription, tasks, tuple(self._names), start)
            if choose is not None:
                self.routes.append((bolt, choose))

    def columns(self, batch: Any, rows: Rows) -> tuple[Any, dict[int, str]]:
        """The stream's columns of some rows, without those that do not fit, and why these do not, by their place."""
        chosen = batch.select(self._names)
        if len(rows) < batch.num_rows:
            chosen = chosen.take(pa.array(rows))
        unfit: dict[int, str] = {}
        stream = self._frame.stream.name
        for name in self._required:
            column = chosen.column(name)
            if column.null_count:
                places = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist()
                unfit |= dict.fromkeys(places, f"field {name} of stream {stream} is null, which it may not be")
        if unfit:
            chosen = _without(chosen, unfit)
        try:
            return self.codec.pack(chosen), unfit
        except Exception:  # noqa: BLE001 - of Arrow and fastavro; which rows it is, is found out one by one
            return self._one_by_one(chosen, unfit)

    def _one_by_one(self, chosen: Any, unfit: dict[int, str]) -> tuple[Any, dict[int, str]]:
        places = [place for place in range(chosen.num_rows + len(unfit)) if place not in unfit]
        bad: dict[int, str] = {}
        for row, place in enumerate(places):
            try:
                self.codec.pack(chosen.slice(row, 1))
            except Exception as error:  # noqa: BLE001 - as above
                bad[row] = f"{type(error).__name__}: {error}"
                unfit[place] = f"it does not fit stream {self._frame.stream.name}: {bad[row]}"
        return self.codec.pack(_without(chosen, bad)), unfit

    def keys(self, bolt: str, rows: Any) -> Sequence[bytes | None]:
        """The record key of each row: that of the fields which the bolt groups by, if it does."""
        fields = self._keys[bolt]
        if not fields:
            return [None] * len(rows)
        columns = [self.codec.packs.column(rows, self._names.index(name)) for name in fields]
        return [grouping_key(values) for values in zip(*columns, strict=True)]


def _without(batch: Any, places: Mapping[int, str]) -> Any:
    return batch.take(pa.array([row for row in range(batch.num_rows) if row not in places], pa.int64()))

"""Write 1, its end: the rows of `transform` into packs and their entries of the ack log. Runs on executors.

Each delivery of a row gets a random edge. For each root of the row an entry (root, edge) joins it to the tree; entries
and packs are written by the same attempt of a task, and never count as repeats of another attempt's: what one attempt
has written of both is complete in itself, or leaves its trees open.
"""

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_jobs.entries import AckLog, Record, merged, new_session, record_rows
from spark_jobs.frames import FrameCodec, StreamFrame
from spark_jobs.tracking import FAIL, STREAM, TRACKING
from spark_jobs.unpacking import roots_of
from tuple_tree.anchor_columns import AnchorColumns, Rows
from tuple_tree.anchors import ANCHOR_COUNTS_HEADER, ANCHORS_HEADER, SOURCE_HEADER, pack_counts
from tuple_tree.column_packs import Columns, concatenated
from tuple_tree.column_routing import ChooseRows, choose_rows_for
from tuple_tree.dead_letters import dead_letter_headers
from tuple_tree.ids import ID_BYTES, IdColumn, pack_ids, random_column
from tuple_tree.manifest import Subscription
from tuple_tree.names import dead_letters_topic, tuples_topic
from tuple_tree.packs import MAX_BYTES, MAX_ROWS
from tuple_tree.routing import grouping_key

LARGEST: Final = 950_000
"""Bytes of a record that Kafka takes unless set otherwise, with room for its headers."""

_HELD: Final = 32 * 2**20
"""Bytes of a task's packs that wait for its end."""

Route = tuple[str, int, Subscription]
"""Bolt, its tasks, its subscription."""

Count = Callable[[str, int], None]


def not_counted(_name: str, _more: int) -> None:
    """Counts nothing."""


@dataclass(frozen=True)
class Outputs:
    """What a component emits; picklable.

    Attributes:
        topology: its name.
        component: who emits.
        streams: name → stream and who receives it.
        log: None where trees are not followed.
    """

    topology: str
    component: str
    streams: Mapping[str, tuple[StreamFrame, Sequence[Route]]]
    log: AckLog | None


@dataclass(frozen=True)
class Pack:
    """Makes records of rows; for `mapInArrow`.

    Attributes:
        outputs: of the bolt.
        largest: bytes of a record; a tuple that is larger is a dead letter, and fails its trees.
        count: called with how many rows were `emitted` and `failed`, and how many deliveries were `transferred`.
    """

    outputs: Outputs
    largest: int = LARGEST
    count: Count = field(default=not_counted)

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Packs batches of rows: the fields of all streams, `_tracking`, and maybe `_fail` and `_stream`."""
        packing = _Packing(self)
        for batch in batches:
            packing.add(batch)
            # Mostly a task fails because `transform` raises: what was not written by then leaves no tree open.
            if packing.size >= _HELD:
                yield record_rows(packing.take())
        packing.end()
        if packing.records:
            yield record_rows(packing.take())


class _Open:
    """Rows of one stream for one task that are not written yet."""

    def __init__(self) -> None:
        self.columns: list[Columns] = []
        self.rows = 0

    def take(self) -> Columns:
        columns, self.columns, self.rows = self.columns, [], 0
        return concatenated(columns)


class _Packing:
    """One attempt of a task."""

    def __init__(self, pack: Pack) -> None:
        outputs = self._outputs = pack.outputs
        self._largest = pack.largest
        self._count = pack.count
        self._writer = f"{outputs.component}/spark-{uuid.uuid4().hex[:12]}"
        self._session = new_session()
        self._sequence = 0
        self._streams = {name: _StreamOut(outputs, name) for name in outputs.streams}
        self._roots: list[IdColumn] = []
        self._vals: list[IdColumn] = []
        self._fails: dict[int, str] = {}
        self.records: list[Record] = []
        self.size = 0

    def take(self) -> list[Record]:
        records, self.records, self.size = self.records, [], 0
        return records

    def add(self, batch: Any) -> None:
        """Takes rows."""
        anchors = roots_of(batch.column(TRACKING))
        rows = np.arange(batch.num_rows)
        if FAIL in batch.schema.names:
            messages = batch.column(FAIL).to_pylist()
            failed = [row for row in rows.tolist() if messages[row] is not None]
            for row in failed:
                self._fail(anchors, row, messages[row])
            rows = np.setdiff1d(rows, failed)
        if len(self._streams) == 1:
            (stream,) = self._streams.values()
            self._emit(stream, batch, anchors, rows)
        elif self._streams:
            names = np.array(batch.column(STREAM).to_pylist(), object)[rows]
            for name, stream in self._streams.items():
                self._emit(stream, batch, anchors, rows[names == name])
            for row in rows[~np.isin(names, list(self._streams))].tolist():
                self._fail(anchors, row, f"{STREAM} is {batch.column(STREAM)[row].as_py()!r}, which is no stream")
        else:
            self._count("emitted", len(rows))

    def end(self) -> None:
        """Writes what is left."""
        for stream in self._streams.values():
            for (bolt, task), open_ in stream.open.items():
                if open_.rows:
                    self._write(stream, bolt, task, open_.take())
        self._write_entries()

    def _emit(self, stream: "_StreamOut", batch: Any, anchors: AnchorColumns, rows: Rows) -> None:
        if not len(rows):
            return
        columns, unfit = stream.columns(batch, rows)
        for place, message in unfit.items():
            self._fail(anchors, int(rows[place]), message)
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
                self._roots.append(roots)
                self._vals.append(spread)
                self._count("transferred", part.num_rows)
                open_ = stream.open.setdefault((bolt, task), _Open())
                open_.columns.append(Columns(part, ids, counts))
                open_.rows += part.num_rows
                if open_.rows >= MAX_ROWS:
                    self._write(stream, bolt, task, open_.take())

    def _fail(self, anchors: AnchorColumns, row: int, message: str) -> None:
        """Fails the trees of a row; an entry that nobody takes back keeps them from being acked before that is read."""
        self._count("failed", 1)
        self._fail_roots(anchors.take(np.array([row]))[0], message)

    def _fail_roots(self, roots: IdColumn, message: str) -> None:
        self._roots.append(roots)
        self._vals.append(random_column(len(roots)))
        self._fails.update(dict.fromkeys(roots.tolist(), message))

    def _write(self, stream: "_StreamOut", bolt: str, task: int, whole: Columns) -> None:
        most = MAX_ROWS if stream.codec.is_packed else 1
        for begin in range(0, len(whole.rows), most):
            self._write_part(stream, bolt, task, whole.part(begin, begin + most))

    def _write_part(self, stream: "_StreamOut", bolt: str, task: int, part: Columns) -> None:
        payload, key = stream.payload(bolt, part.rows)
        size = len(payload) + ID_BYTES * len(part.ids)
        rows = len(part.rows)
        if rows > 1 and size > MAX_BYTES:
            self._write_part(stream, bolt, task, part.part(0, rows // 2))
            self._write_part(stream, bolt, task, part.part(rows // 2, rows))
            return
        headers: list[tuple[str, bytes]] = []
        if self._outputs.log is not None and len(part.ids):
            headers.append((ANCHORS_HEADER, pack_ids(part.ids)))
            if part.counts is not None:
                headers.append((ANCHOR_COUNTS_HEADER, pack_counts(part.counts.tolist())))
        headers.append((SOURCE_HEADER, stream.source))
        topic = tuples_topic(self._outputs.topology, bolt)
        if size > self._largest:
            self._set_aside(topic, task, size, part)
            return
        self.records.append((topic, task, key, payload, headers))
        self.size += size

    def _set_aside(self, topic: str, task: int, size: int, part: Columns) -> None:
        """A tuple that no record takes: nothing of it but where it was to go."""
        component, largest = self._outputs.component, self._largest
        detail = f"a tuple for {topic}[{task}] takes {size:,} bytes with its anchors, and a record {largest:,}"
        headers = dead_letter_headers(topic, task, -1, reason="too-large", detail=detail, by=f"{component}/{task}")
        self.records.append((dead_letters_topic(self._outputs.topology), 0, None, None, headers))
        self._count("dead", 1)
        self._fail_roots(part.ids[::2], f"{component}: {detail}")

    def _write_entries(self) -> None:
        if self._outputs.log is None:
            return
        roots, vals = merged(self._roots, self._vals)
        fails = list(self._fails.items())
        self.records += self._outputs.log.records(self._writer, self._session, self._sequence, roots, vals, fails)


class _StreamOut:
    """A stream on its way out of one attempt."""

    def __init__(self, outputs: Outputs, name: str) -> None:
        frame, routes = outputs.streams[name]
        self.codec = FrameCodec(frame)
        self.source = f"{outputs.component}/{name}".encode()
        self.open: dict[tuple[str, int], _Open] = {}
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

    def payload(self, bolt: str, rows: Any) -> tuple[bytes, bytes | None]:
        """The payload of a record, and its key."""
        fields = self._keys[bolt]
        if self.codec.is_packed or not fields:
            return self.codec.payload(rows), None
        (values,) = self.codec.packs.rows(rows)
        return self.codec.payload(rows), grouping_key([values[self._names.index(name)] for name in fields])


def _without(batch: Any, places: Mapping[int, str]) -> Any:
    return batch.take(pa.array([row for row in range(batch.num_rows) if row not in places], pa.int64()))

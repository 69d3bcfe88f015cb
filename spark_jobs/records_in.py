"""The records of a bolt's inbox into the rows that `transform` receives, or into dead letters. On executors."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from spark_jobs.entries import AckLog, Entries, Record, Send, dead_letter
from spark_jobs.frames import FrameCodec, StreamFrame
from spark_jobs.packing import Count, not_counted
from spark_jobs.tracking import SOURCE, TRACKING, tracking_of
from tuple_tree.anchors import (
    ANCHOR_COUNTS_HEADER,
    ANCHORS_HEADER,
    PAIR_BYTES,
    SOURCE_HEADER,
    AnchorColumns,
    anchor_headers,
)
from tuple_tree.errors import WireError
from tuple_tree.ids import IdColumn, unpack_ids

Headers = list[tuple[str, bytes]]

_ROWS: Final = 10_000
"""Rows that are handed to Spark together, about."""


class RecordIn(NamedTuple):
    """A record of an inbox."""

    key: bytes | None
    value: bytes | None
    partition: int
    offset: int
    headers: Headers


class RowsIn(NamedTuple):
    """The tuples of a record."""

    source: str  # component/stream
    columns: Any  # a record batch with the fields of the stream
    anchors: AnchorColumns
    errors: Mapping[int, WireError]  # of those that cannot be read, by their number


@dataclass(frozen=True)
class Sources:
    """What a bolt receives; picklable."""

    topology: str
    bolt: str
    inbox: str  # its topic
    streams: Mapping[str, StreamFrame]  # by component/stream
    log: AckLog | None  # None where trees are not followed


class InboxDecoder:
    """Reads records of an inbox; made on the executor."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._codecs = {source: FrameCodec(frame) for source, frame in sources.streams.items()}

    def rows(self, record: RecordIn) -> RowsIn:
        """The tuples of a record; raises `WireError` if it cannot be used."""
        headers = dict(record.headers)
        header = headers.get(SOURCE_HEADER)
        if header is None:
            raise WireError("no-source", f"the record has no {SOURCE_HEADER} header")
        source = header.decode(errors="replace")
        codec = self._codecs.get(source)
        if codec is None:
            known = ", ".join(self._codecs)
            raise WireError("unknown-source", f"{self._sources.bolt} does not receive {source!r}: it receives {known}")
        if record.value is None:
            raise WireError("no-payload", "the record has no value")
        columns, errors = codec.decode(record.value)
        size = columns.num_rows
        if self._sources.log is None:
            return RowsIn(source, columns, AnchorColumns.none(size), errors)
        anchors = AnchorColumns.read(headers.get(ANCHORS_HEADER), headers.get(ANCHOR_COUNTS_HEADER), size)
        return RowsIn(source, columns, anchors, errors)

    def alone(self, source: str, payload: bytes, index: int) -> bytes:
        """A pack of one of the tuples of a pack."""
        return self._codecs[source].packs.alone(payload, index)


def records_of(batch: Any) -> Iterator[RecordIn]:
    """The records in a batch of Spark with the columns `key`, `value`, `partition`, `offset` and `headers`."""
    columns = [batch.column(name).to_pylist() for name in ("key", "value", "partition", "offset")]
    headers = batch.column("headers")
    offsets = headers.offsets.to_numpy()
    pairs = headers.flatten()
    keys, values = pairs.field("key").to_pylist(), pairs.field("value").to_pylist()
    first = offsets[0]
    for number, record in enumerate(zip(*columns, strict=True)):
        begin, end = offsets[number] - first, offsets[number + 1] - first
        own = [(key, value) for key, value in zip(keys[begin:end], values[begin:end], strict=True) if value is not None]
        key, value, partition, offset = record
        yield RecordIn(key, value, partition, offset, own)


@dataclass(frozen=True)
class Unpack:
    """Makes rows of records, for `mapInArrow`, as the beginning of write 1.

    A record or tuple that cannot be decoded becomes a dead letter and fails its trees. That is sent, and delivered,
    before the task goes on, so before write 2 acks the input, whatever `transform` does with the rows.
    """

    sources: Sources
    send: Send
    count: Count = field(default=not_counted)

    @property
    def schema(self) -> Any:
        """The fields of all streams, by name, `_source` and `_tracking`."""
        fields = {field.name: field for frame in self.sources.streams.values() for field in frame.schema}
        return pa.schema([*fields.values(), pa.field(SOURCE, pa.string()), pa.field(TRACKING, pa.binary())])

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Unpacks batches of records, see `records_of`."""
        decoder, schema = InboxDecoder(self.sources), self.schema
        rejected = _Rejected(self)
        made: list[Any] = []
        rows = 0
        for batch in batches:
            for record in records_of(batch):
                try:
                    found = decoder.rows(record)
                except WireError as error:
                    rejected.add(_roots_of(record), record, error)
                    continue
                if found.errors:
                    rejected.add_tuples(decoder, record, found)
                self.count("executed", found.columns.num_rows - len(found.errors))
                made.append(_framed(found, schema))
                rows += found.columns.num_rows
                if rows >= _ROWS:
                    rejected.send()
                    yield pa.concat_batches(made)
                    made, rows = [], 0
            rejected.send()
        if made:
            yield pa.concat_batches(made)


class _Rejected:
    """What cannot be decoded in one attempt of a task and is not sent yet."""

    def __init__(self, unpack: Unpack) -> None:
        self._unpack = unpack
        self._sources = unpack.sources
        self._entries = Entries(unpack.sources.log, unpack.sources.bolt)
        self._letters: list[Record] = []

    def add(self, roots: IdColumn, record: RecordIn, error: WireError, index: int | None = None) -> None:
        bolt, place = self._sources.bolt, (self._sources.inbox, record.partition, record.offset)
        self._entries.fail(roots, f"{bolt}: dead letter, {error}")
        self._letters.append(
            dead_letter(
                self._sources.topology,
                place,
                reason=error.reason,
                detail=error.detail,
                by=f"{bolt}/{record.partition}",
                key=record.key,
                value=record.value,
                headers=record.headers,
                index=index,
            )
        )

    def add_tuples(self, decoder: InboxDecoder, record: RecordIn, found: RowsIn) -> None:
        """Adds single tuples of a record, each as a record of its own."""
        own = [header for header in record.headers if header[0] not in (ANCHORS_HEADER, ANCHOR_COUNTS_HEADER)]
        for index, error in found.errors.items():
            roots, edges, _ = found.anchors.take(np.array([index]))
            anchors = anchor_headers([dict(zip(roots.tolist(), edges.tolist(), strict=True))])
            headers = [(name, value) for name, value in anchors if isinstance(value, bytes)] + own
            payload = decoder.alone(found.source, record.value or b"", index)
            self.add(roots, record._replace(value=payload, headers=headers), error, index)

    def send(self) -> None:
        if self._letters:
            self._unpack.send([*self._letters, *self._entries.take()])
            self._unpack.count("dead", len(self._letters))
            self._letters = []


def _roots_of(record: RecordIn) -> IdColumn:
    """The roots of all trees that a record belongs to, as far as its header can be read."""
    header = dict(record.headers).get(ANCHORS_HEADER, b"")
    return np.unique(unpack_ids(header[: len(header) // PAIR_BYTES * PAIR_BYTES])[::2].astype(np.uint64))


def _framed(found: RowsIn, schema: Any) -> Any:
    size = found.columns.num_rows
    names = found.columns.schema.names
    columns = [
        found.columns.column(field.name) if field.name in names else pa.nulls(size, field.type)
        for field in list(schema)[:-2]
    ]
    whole = pa.record_batch([*columns, pa.repeat(found.source, size), tracking_of(found.anchors)], schema=schema)
    if not found.errors:
        return whole
    return whole.take(pa.array([row for row in range(size) if row not in found.errors], pa.int64()))

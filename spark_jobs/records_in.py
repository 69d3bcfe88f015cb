"""The records of a bolt's inbox into the rows that `transform` receives, or why they cannot be used. On executors."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa

from spark_jobs.frames import FrameCodec, StreamFrame
from spark_jobs.tracking import SOURCE, TRACKING, tracking_of
from tuple_tree.anchor_columns import AnchorColumns
from tuple_tree.anchors import ANCHOR_COUNTS_HEADER, ANCHORS_HEADER, PAIR_BYTES, SOURCE_HEADER
from tuple_tree.errors import WireError

Headers = list[tuple[str, bytes]]

_ROWS: Final = 10_000
"""Rows that are handed to Spark together, about."""


class RecordIn(NamedTuple):
    """A record of an inbox."""

    value: bytes | None
    headers: Headers
    key: bytes | None = None
    partition: int = -1
    offset: int = -1


class RowsIn(NamedTuple):
    """The tuples of a record."""

    source: str  # component/stream
    columns: Any  # a record batch with the fields of the stream
    anchors: AnchorColumns
    errors: Mapping[int, WireError]  # of those that cannot be read, by their number


@dataclass(frozen=True)
class Sources:
    """What a bolt receives; picklable."""

    bolt: str
    streams: Mapping[str, StreamFrame]  # by component/stream
    acking: bool


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
        if not self._sources.acking:
            return RowsIn(source, columns, AnchorColumns.none(size), errors)
        anchors = AnchorColumns.read(headers.get(ANCHORS_HEADER), headers.get(ANCHOR_COUNTS_HEADER), size)
        return RowsIn(source, columns, anchors, errors)

    def alone(self, source: str, payload: bytes, index: int) -> bytes:
        """A pack of one of the tuples of a pack."""
        return self._codecs[source].packs.alone(payload, index)

    def all_roots(self, record: RecordIn) -> list[int]:
        """The roots of all trees that a record belongs to, as far as its header can be read."""
        header = dict(record.headers).get(ANCHORS_HEADER)
        if not header or not self._sources.acking:
            return []
        whole = len(header) // PAIR_BYTES * PAIR_BYTES
        anchors = AnchorColumns.read(header[:whole], None, whole // PAIR_BYTES)
        return list(dict.fromkeys(anchors.roots.tolist()))


def records_of(batch: Any) -> Iterator[RecordIn]:
    """The records in a batch of Spark: columns `value` and `headers`, and maybe `key`, `partition` and `offset`."""
    columns = {name: batch.column(name).to_pylist() for name in batch.schema.names if name != "headers"}
    headers = batch.column("headers")
    offsets = headers.offsets.to_numpy()
    pairs = headers.flatten()
    keys, values = pairs.field("key").to_pylist(), pairs.field("value").to_pylist()
    first = offsets[0]
    for number in range(batch.num_rows):
        begin, end = offsets[number] - first, offsets[number + 1] - first
        own = [(key, value) for key, value in zip(keys[begin:end], values[begin:end], strict=True) if value is not None]
        yield RecordIn(columns["value"][number], own, *(columns[name][number] for name in _PLACE if name in columns))


_PLACE = ("key", "partition", "offset")


@dataclass(frozen=True)
class Unpack:
    """Makes rows of records, for `mapInArrow`, as the beginning of write 1."""

    sources: Sources

    @property
    def schema(self) -> Any:
        """The fields of all streams, by name, `_source` and `_tracking`."""
        fields = {field.name: field for frame in self.sources.streams.values() for field in frame.schema}
        return pa.schema([*fields.values(), pa.field(SOURCE, pa.string()), pa.field(TRACKING, pa.binary())])

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Unpacks batches of records with the columns `value` and `headers`; what cannot be used is left out."""
        decoder, schema = InboxDecoder(self.sources), self.schema
        made: list[Any] = []
        rows = 0
        for batch in batches:
            for record in records_of(batch):
                try:
                    found = decoder.rows(record)
                except WireError:
                    continue  # `InputAcks` makes a dead letter of it
                made.append(_framed(found, schema))
                rows += found.columns.num_rows
                if rows >= _ROWS:
                    yield pa.concat_batches(made)
                    made, rows = [], 0
        if made:
            yield pa.concat_batches(made)


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

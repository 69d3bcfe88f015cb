"""The records of a bolt's inbox: into the rows that `transform` receives or into dead letters, and their acks.

`unpack` is the beginning of write 1, on executors. It reports the acks of what it has read, which the driver sends as
write 2. What is not reported, such as records past a `limit`, tasks read again, with `ack_unreported`. See ADR 22.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.entries import AttemptEntries, Record, Send, ack_records, dead_letter
from spark_jobs.frames import FrameCodec, arrow_schema, without_rows
from spark_jobs.transform import SOURCE, TRACKING, tracking_of
from tuple_tree.anchors import (
    ANCHOR_COUNTS_HEADER,
    ANCHORS_HEADER,
    HEAD,
    OF_TUPLES,
    SOURCE_HEADER,
    AnchorColumns,
    Rows,
    readable_roots,
)
from tuple_tree.components import BoltManifest
from tuple_tree.edges import edges_of
from tuple_tree.errors import WireError
from tuple_tree.ids import ID_BYTES, NO_IDS, IdColumn
from tuple_tree.manifest import Manifest
from tuple_tree.names import tuples_topic
from tuple_tree.streams import StreamDeclaration

_ROWS: Final = 10_000
"""Rows that are passed to Spark together, about."""

_REPORTED: Final = 1_000_000
"""Anchors whose acks a task reports to the driver, at most, 16 bytes each."""

_BATCH_BITS: Final = 20
"""The number of bits below the id of the micro-batch in a sequence number of write 2."""


class PartitionRead(NamedTuple):
    """The records of a partition of an inbox that a task has read, up to its end in a micro-batch."""

    executed: int  # tuples that became rows
    dead: int  # dead letters
    anchors: int
    acks: list[Record]


def smaller(one: PartitionRead, other: PartitionRead) -> PartitionRead:
    """The one with fewer anchors: between two reads of a micro-batch, a broker may delete records, and adds none."""
    return min(one, other, key=lambda each: each.anchors)


Report = Callable[[int, PartitionRead], None]
"""Called with a partition of the inbox; picklable."""


@dataclass(frozen=True)
class InputAcks:
    """The acks of the inputs of a micro-batch; picklable. `session` is the id of the query, as 16 bytes."""

    manifest: Manifest
    bolt: str
    session: bytes
    batch_id: int

    def records(self, partition: int, roots: IdColumn, edges: IdColumn) -> list[Record]:
        """The acks of a partition of the inbox, whose anchors are in the order of the records' offsets.

        So a run that is repeated makes the same batches under the same numbers.
        """
        return list(ack_records(self.manifest, partial(self._identity, partition), roots, edges))

    def _identity(self, partition: int, number: int) -> tuple[str, bytes, int]:
        return f"{self.bolt}/spark-in-{partition}", self.session, (self.batch_id << _BATCH_BITS) + number


class RecordIn(NamedTuple):
    """A record of an inbox."""

    key: bytes | None
    value: bytes | None
    partition: int
    offset: int
    headers: list[tuple[str, bytes]]


def records_of(batch: Any) -> Iterator[RecordIn]:
    """The records in a batch of Spark with the columns `key`, `value`, `partition`, `offset` and `headers`."""
    columns = [batch.column(name).to_pylist() for name in ("key", "value", "partition", "offset")]
    headers = batch.column("headers")
    offsets = headers.offsets.to_numpy()
    pairs = headers.flatten()
    keys, values = pairs.field("key").to_pylist(), pairs.field("value").to_pylist()
    first = offsets[0]
    for number, (key, value, partition, offset) in enumerate(zip(*columns, strict=True)):
        begin, end = offsets[number] - first, offsets[number + 1] - first
        own = [pair for pair in zip(keys[begin:end], values[begin:end], strict=True) if pair[1] is not None]
        yield RecordIn(key, value, partition, offset, own)


def received(manifest: Manifest, bolt: BoltManifest) -> dict[str, StreamDeclaration]:
    """The streams that a bolt receives, by component/stream."""
    return {f"{each.source}/{each.stream}": manifest.stream(each.source, each.stream) for each in bolt.subscriptions}


def unpack(
    manifest: Manifest,
    bolt: BoltManifest,
    send: Send,
    acks: InputAcks,
    report: Report,
    batches: Iterable[Any],
    most: int = _REPORTED,
) -> Iterator[Any]:
    """Makes rows of batches of records, see `records_of`, for `mapInArrow`, as the beginning of write 1.

    They have the fields of all streams, `_source` and `_tracking`. A record or tuple that cannot be decoded becomes a
    dead letter and fails its trees. That is sent, and delivered, before the task continues, so before write 2 acks the
    input, whatever `transform` does with the rows. `report` is called at the end, unless there are more than `most`
    anchors; a task that Spark ends early, because it needs no more rows, reports nothing either.
    """
    task = _UnpackTask(manifest, bolt, send)
    anchors = _AnchorsRead()
    made: list[Any] = []
    rows = 0
    for batch in batches:
        if manifest.acking and anchors.size <= most:
            anchors.add(batch)
        for record in records_of(batch):
            if (decoded := task.rows(record)) is None:
                continue
            made.append(decoded)
            rows += decoded.num_rows
            if rows >= _ROWS:
                task.send_rejected()
                yield pa.concat_batches(made)
                made, rows = [], 0
        task.send_rejected()
    if made:
        yield pa.concat_batches(made)
    if anchors.size <= most:
        for partition in task.executed:
            roots, edges = anchors.of(partition)
            of = len(roots), acks.records(partition, roots, edges)
            report(partition, PartitionRead(task.executed[partition], task.dead[partition], *of))


class _AnchorsRead:
    """Root and edge of each anchor of records, by their partition, in the order of the records."""

    def __init__(self) -> None:
        self._parts: dict[int, list[tuple[IdColumn, IdColumn]]] = defaultdict(list)
        self.size = 0

    def add(self, batch: Any) -> None:
        """Adds records, by the columns `partition` and `headers`."""
        owners, headers = batch.column("partition").to_numpy(), batch.column("headers")
        for partition in np.unique(owners).tolist():
            roots, edges = _anchors(headers.filter(pa.array(owners == partition)))
            self._parts[partition].append((roots, edges))
            self.size += len(roots)

    def of(self, partition: int) -> tuple[IdColumn, IdColumn]:
        roots, edges = zip((NO_IDS, NO_IDS), *self._parts[partition], strict=True)
        return np.concatenate(roots), np.concatenate(edges)

    def partitions(self) -> Iterable[int]:
        return self._parts


class _UnpackTask:
    """One attempt of a task: its codecs, and what cannot be decoded and is not sent yet."""

    def __init__(self, manifest: Manifest, bolt: BoltManifest, send: Send) -> None:
        self._manifest = manifest
        self._bolt = bolt
        self._send = send
        self.executed = Counter[int]()  # by partition
        self.dead = Counter[int]()
        streams = received(manifest, bolt)
        self._codecs = {source: FrameCodec(stream) for source, stream in streams.items()}
        fields = {field.name: field for stream in streams.values() for field in arrow_schema(stream)}
        self._fields = [*fields.values()]
        self._schema = pa.schema([*self._fields, pa.field(SOURCE, pa.string()), pa.field(TRACKING, pa.binary())])
        self._entries = AttemptEntries(manifest, bolt)
        self._letters: list[Record] = []

    def rows(self, record: RecordIn) -> Any:
        """The tuples of a record as rows, without undecodable tuples; None for an undecodable record."""
        self.executed[record.partition] += 0  # it has been read
        headers = dict(record.headers)
        anchors, counts = headers.get(ANCHORS_HEADER, b""), headers.get(ANCHOR_COUNTS_HEADER)
        try:
            source, codec = self._source_of(headers.get(SOURCE_HEADER))
            if record.value is None:
                raise WireError("no-payload", "the record has no value")
            columns, errors = codec.decode(record.value)
            size = columns.num_rows
            is_tracked = self._manifest.acking
            read = AnchorColumns.read(anchors, counts, size) if is_tracked else AnchorColumns.none(size)
        except WireError as error:
            self._reject(np.unique(readable_roots(anchors)), record, error)
            return None
        for index, why in errors.items():
            self._reject_tuple(codec, read, record, why, index)
        self.executed[record.partition] += size - len(errors)
        names = columns.schema.names
        values = [
            columns.column(field.name) if field.name in names else pa.nulls(size, field.type) for field in self._fields
        ]
        whole = pa.record_batch([*values, pa.repeat(source, size), tracking_of(read)], schema=self._schema)
        return without_rows(whole, errors)

    def _source_of(self, header: bytes | None) -> tuple[str, FrameCodec]:
        if header is None:
            raise WireError("no-source", f"the record has no {SOURCE_HEADER} header")
        source = header.decode(errors="replace")
        codec = self._codecs.get(source)
        if codec is None:
            known = ", ".join(self._codecs)
            raise WireError("unknown-source", f"{self._bolt.name} does not receive {source!r}: it receives {known}")
        return source, codec

    def _reject_tuple(
        self, codec: FrameCodec, anchors: AnchorColumns, record: RecordIn, error: WireError, index: int
    ) -> None:
        """Rejects a tuple of a record as a record of its own."""
        alone = anchors.part(index, index + 1)
        others = [each for each in record.headers if each[0] not in OF_TUPLES]
        payload = codec.packs.alone(record.value or b"", index)
        self._reject(alone.roots, record._replace(value=payload, headers=[*alone.headers(), *others]), error, index)

    def _reject(self, roots: IdColumn, record: RecordIn, error: WireError, index: int | None = None) -> None:
        bolt, topology = self._bolt.name, self._manifest.topology
        self.dead[record.partition] += 1
        self._entries.fail(roots, f"{bolt}: dead letter, {error}")
        self._letters.append(
            dead_letter(
                topology,
                f"{bolt}/{record.partition}",
                (tuples_topic(topology, bolt), record.partition, record.offset),
                error,
                record.key,
                record.value,
                record.headers,
                index,
            )
        )

    def send_rejected(self) -> None:
        if self._letters:
            self._send([*self._letters, *self._entries.take()])
            self._letters = []


def send_reported_acks(send: Send, reads: Iterable[PartitionRead]) -> int:
    """Acks what was read, as write 2; returns how many anchors that are.

    What cannot be decoded is acked as well: `unpack` has failed its trees.
    """
    anchors, records = 0, []
    for read in reads:
        anchors += read.anchors
        records += read.acks
    if records:
        send(records)
    return anchors


def ack_unreported(acks: InputAcks, send: Send, batches: Iterable[Any]) -> dict[int, int]:
    """Acks inputs that are read again, as `send_reported_acks`, in a task that has whole partitions of the inbox.

    Batches have the columns `partition` and `headers`. Returns the number of anchors by partition.
    """
    read = _AnchorsRead()
    for batch in batches:
        read.add(batch)
    records = [record for partition in read.partitions() for record in acks.records(partition, *read.of(partition))]
    if records:
        send(records)
    return {partition: len(read.of(partition)[0]) for partition in read.partitions()}


def _anchors(headers: Any) -> tuple[IdColumn, IdColumn]:
    """Root and edge of each anchor of records, by a column of their headers.

    Of a header that is not whole nothing is acked.
    """
    records, values = _last_of(ANCHORS_HEADER, headers)
    sizes = pc.binary_length(values).to_numpy()
    whole = (sizes >= HEAD.size) & ((sizes - HEAD.size) % ID_BYTES == 0)
    records, sizes = records[whole], sizes[whole]
    if not len(records):
        return NO_IDS, NO_IDS
    # In words of 4 bytes: seed, number of the first edge, roots.
    words = np.frombuffer(b"".join(values.filter(pa.array(whole)).to_pylist()), ">u4")
    heads = (np.cumsum(sizes) - sizes) // words.itemsize
    seeds = words[heads].astype(np.uint64) << np.uint64(32) | words[heads + 1]
    firsts = words[heads + 2].astype(np.int64)
    roots = np.delete(words, [heads, heads + 1, heads + 2]).view(">u8").astype(np.uint64)
    anchors = (sizes - HEAD.size) // ID_BYTES
    ends = np.cumsum(anchors)
    begins = ends - anchors
    numbers = np.arange(len(roots)) + np.repeat(firsts - begins, anchors)
    with_counts, each = _last_of(ANCHOR_COUNTS_HEADER, headers)
    for record, counts in zip(with_counts.tolist(), each.to_pylist(), strict=True):
        at = np.searchsorted(records, record)
        of = np.frombuffer(counts, ">u2", len(counts) // 2)
        if at < len(records) and records[at] == record and of.sum() == anchors[at]:
            numbers[begins[at] : ends[at]] = firsts[at] + np.repeat(np.arange(len(of)), of)
    return roots, edges_of(np.repeat(seeds, anchors), numbers.astype(np.uint64))


def _last_of(name: str, headers: Any) -> tuple[Rows, Any]:
    """Which records have a header, and its values; of several with the name the last one, as in `unpack`."""
    pairs = headers.flatten()
    keys, values = pairs.field("key"), pairs.field("value")
    places = np.flatnonzero(pc.and_(pc.equal(keys, name), pc.is_valid(values)).to_numpy(zero_copy_only=False))
    records = np.repeat(np.arange(len(headers)), np.diff(headers.offsets.to_numpy()))[places]
    is_last = np.append(records[1:] != records[:-1], True)[: len(records)]
    return records[is_last], values.take(pa.array(places[is_last]))

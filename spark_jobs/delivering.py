"""Messages of a spout's source into packs, inits and dead letters.

A message is a tree, whose root encodes position and attempt. The edges of an attempt of a task are its own, and its
inits are in the log before the first of its tuples leaves; see ADR 23.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import Accumulator, AccumulatorParam, SparkContext, TaskContext
from pyspark.sql import Column, DataFrame

from spark_jobs.entries import OUT, KafkaSender, Send, dead_letter
from spark_jobs.errors import ComponentRefusedError, SparkJobError
from spark_jobs.frames import FrameCodec, is_whole_value, spark_fields
from spark_jobs.kafka_options import executor_settings, sink_options
from spark_jobs.packing import LARGEST, Packing, without
from spark_jobs.transform import check_fields
from tuple_tree.ids import IdColumn
from tuple_tree.manifest import Manifest, SpoutManifest
from tuple_tree.positions import (
    ATTEMPT_BITS,
    MAX_SPOUTS,
    OFFSET_BITS,
    PARTITION_BITS,
    fields_of_words,
    roots_of_words,
    topic_key,
    words_of_roots,
)
from tuple_tree.source_positions import Offsets
from tuple_tree.streams import Stream

FIELD: Final = "_field_"
"""Stands before the name of a field, which may be called like a column of Kafka's."""

_KAFKAS: Final = ("key", "value", "topic", "partition", "offset", "headers")
_DETAIL: Final = 500
"""Characters of a dead letter's detail."""


class SourceRange(NamedTuple):
    """Messages of one source partition; pickled as runs of offsets without a gap."""

    partition: int
    offsets: Offsets  # in rising order
    dead: Offsets  # of those that became dead letters
    tuples: int  # deliveries, one for each recipient

    def __reduce__(self) -> tuple[Any, ...]:
        begins = np.flatnonzero(np.diff(self.offsets, prepend=self.offsets[:1] - 2) != 1)
        sizes = np.diff(begins, append=len(self.offsets))
        return _of_runs, (self.partition, self.offsets[begins], sizes, self.dead, self.tuples)


def _of_runs(partition: int, starts: Offsets, sizes: Offsets, dead: Offsets, tuples: int) -> SourceRange:
    firsts = np.cumsum(sizes) - sizes
    return SourceRange(partition, np.arange(sizes.sum()) + np.repeat(starts - firsts, sizes), dead, tuples)


def _merged(ranges: Iterable[SourceRange]) -> list[SourceRange]:
    """One range for each partition of which there are messages."""
    partitions: dict[int, list[SourceRange]] = {}
    for each in ranges:
        if len(each.offsets):
            partitions.setdefault(each.partition, []).append(each)
    return [
        SourceRange(
            partition,
            _distinct([each.offsets for each in several]),
            _distinct([each.dead for each in several]),
            sum(each.tuples for each in several),
        )
        for partition, several in partitions.items()
    ]


def _distinct(several: Sequence[Offsets]) -> Offsets:
    """All of them in order; `np.unique` of a column hashes, which takes ten times as long as merging runs."""
    merged: Offsets = np.sort(np.concatenate(several), kind="stable")
    distinct: Offsets = merged[np.diff(merged, prepend=merged[:1] - 1) != 0]
    return distinct


@dataclass(frozen=True)
class SourceRoots:
    """The positional roots of the messages of a source; picklable."""

    spout: int  # index in the manifest
    topic_key: int
    ack_partitions: int

    def roots(self, partition: int, offsets: Offsets, attempts: Any) -> IdColumn:
        """The root of each message of a partition."""
        high = np.uint64(self.spout << PARTITION_BITS | partition) << np.uint64(OFFSET_BITS + ATTEMPT_BITS)
        words = high | offsets.astype(np.uint64) << np.uint64(ATTEMPT_BITS) | attempts.astype(np.uint64)
        return roots_of_words(words, [self.topic_key], self.ack_partitions)

    def positions(self, roots: IdColumn) -> tuple[Any, Offsets, Offsets, Offsets]:
        """Whether each root is one of these, and its partition, offset and attempt."""
        words = words_of_roots(roots, self.topic_key, self.ack_partitions)
        spouts, partitions, offsets, attempts = (field.astype(np.int64) for field in fields_of_words(words))
        return spouts == self.spout, partitions, offsets, attempts


class ReplayRequest(NamedTuple):
    """Messages of one source partition that are delivered again."""

    offsets: Offsets  # in rising order
    attempts: Any  # the one to come, of each
    given_up: Mapping[int, str]  # offset → why it is not delivered any more


_Reports = list[tuple[int, list[SourceRange]]]
"""Of tasks, by their numbers."""


class _Appended(AccumulatorParam[_Reports]):
    def zero(self, value: _Reports) -> _Reports:  # noqa: ARG002 - of Spark
        return []

    def addInPlace(self, value1: _Reports, value2: _Reports) -> _Reports:  # noqa: N802 - of Spark
        return [*value1, *value2]


class Deliveries:
    """What tasks report of what they have delivered; of a task that is tried again, the last attempt."""

    def __init__(self, spark: SparkContext) -> None:
        self._reported: Accumulator[_Reports] = spark.accumulator([], _Appended())

    def __call__(self, ranges: list[SourceRange]) -> None:
        """On an executor: delivers the report of a task."""
        task = TaskContext.get()
        assert task is not None  # noqa: S101 - for the type checker
        self._reported.add([(task.partitionId(), ranges)])

    def take(self, tasks: int) -> list[SourceRange]:
        """On the driver: what so many tasks have reported since the last call, each partition once."""
        # Spark only logs an accumulator that it cannot bring up to date.
        reported, self._reported.value = dict(self._reported.value), []
        if len(reported) < tasks:
            raise SparkJobError(
                f"{tasks - len(reported)} of {tasks} tasks have not reported what they delivered: see Spark's log, and "
                "start the spout again, it delivers the micro-batch once more"
            )
        return _merged(each for ranges in reported.values() for each in ranges)


@dataclass(frozen=True)
class Deliver:
    """Makes records of messages, for `mapInArrow`; a tuple larger than `largest` bytes is a dead letter.

    `form` is how the fields of the only stream are read: `columns` if Spark has made them under names with `FIELD`;
    `value` if the only field is the value as it is; `payload` if the value is a payload of the stream.
    """

    manifest: Manifest
    spout: SpoutManifest
    form: Literal["columns", "value", "payload"]
    roots: SourceRoots
    send: Send  # of inits
    report: Callable[[list[SourceRange]], object]
    wanted: Mapping[int, ReplayRequest] | None = None  # by partition; None for all messages, for the first time
    largest: int = LARGEST

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Packs batches of messages: Kafka's columns, and the stream's fields where Spark has made them."""
        task = _DeliverTask(self)
        yield from task.packing.records(batches, task.add)
        self.report(_merged(task.ranges))


class _DeliverTask:
    """One attempt of a task."""

    def __init__(self, deliver: Deliver) -> None:
        self._deliver = deliver
        self._codec = FrameCodec(deliver.spout.streams[0])
        self.packing = Packing(deliver.manifest, deliver.spout, deliver.largest, self._count, deliver.send)
        self._transferred = 0
        self.ranges: list[SourceRange] = []

    def _count(self, name: str, more: int) -> None:
        self._transferred += more if name == "transferred" else 0

    def add(self, batch: Any) -> None:
        partitions = batch.column("partition")
        for partition in pc.unique(partitions).to_pylist():
            rows = np.flatnonzero(partitions.to_numpy() == partition)
            self._add(partition, batch.take(pa.array(rows)) if len(rows) < batch.num_rows else batch)

    def _add(self, partition: int, batch: Any) -> None:
        offsets = batch.column("offset").to_numpy()
        attempts = np.zeros(len(offsets), np.int64)
        dead: dict[int, tuple[str, str]] = {}
        if self._deliver.wanted is not None:
            wanted = self._deliver.wanted.get(partition)
            if wanted is None:
                return
            rows = np.flatnonzero(np.isin(offsets, wanted.offsets))
            batch, offsets = batch.take(pa.array(rows)), offsets[rows]
            attempts = wanted.attempts[np.searchsorted(wanted.offsets, offsets)]
            for row, offset in enumerate(offsets.tolist()):
                if offset in wanted.given_up:
                    dead[row] = "retries-exhausted", wanted.given_up[offset]
        fields, unread = self._fields(batch)
        before, alive = self._transferred, without(np.arange(len(offsets)), [*unread, *dead])
        unfit = self.packing.begin(fields, self._deliver.roots.roots(partition, offsets, attempts), alive)
        for row, detail in {**unread, **unfit}.items():
            dead.setdefault(row, ("bad-payload", detail))
        for row, (reason, detail) in dead.items():
            self._set_aside(batch, row, reason, detail)
        self.ranges.append(SourceRange(partition, offsets, offsets[sorted(dead)], self._transferred - before))

    def _fields(self, batch: Any) -> tuple[Any, dict[int, str]]:
        """The fields of messages, and what is wrong with those that cannot be read."""
        schema, form = self._codec.schema, self._deliver.form
        if form == "columns":
            return pa.record_batch([batch.column(FIELD + name) for name in schema.names], schema.names), {}
        value = batch.column("value")
        if form == "payload":
            return self._codec.decode_each(value.to_pylist())
        try:
            return pa.record_batch([value.cast(schema.types[0])], schema), {}
        except pa.ArrowInvalid:
            texts: list[str | None] = []
            unread = {}
            for row, each in enumerate(value.to_pylist()):
                try:
                    texts.append(None if each is None else each.decode())
                except UnicodeDecodeError:
                    texts.append(None)
                    unread[row] = "the value is no UTF-8"
            return pa.record_batch([pa.array(texts, schema.types[0])], schema), unread

    def _set_aside(self, batch: Any, row: int, reason: str, detail: str) -> None:
        """Makes a dead letter of a message."""
        topic, partition, offset, key, value, headers = (
            batch.column(name)[row].as_py() for name in ("topic", "partition", "offset", "key", "value", "headers")
        )
        self.packing.add(
            dead_letter(
                self._deliver.manifest.topology,
                (topic, partition, offset),
                reason=reason,
                detail=detail[:_DETAIL],
                by=f"{self._deliver.spout.name}/0",
                key=key,
                value=value,
                headers=[(header["key"], header["value"]) for header in headers or ()],
            )
        )


@dataclass(frozen=True, slots=True)
class SpoutBatch:
    """What every write of a spout has in common."""

    manifest: Manifest
    spout: SpoutManifest
    form: Literal["columns", "value", "payload"]
    roots: SourceRoots
    fields: Mapping[str, Column]  # of the stream, over Kafka's columns, if that is the form
    send: KafkaSender  # of inits and dead letters
    sink: Mapping[str, str]

    @classmethod
    def of(
        cls,
        manifest: Manifest,
        spout: SpoutManifest,
        records: DataFrame,
        fields: Mapping[str, Column] | None,
        kafka: Mapping[str, Any],
        topic_id: str,
    ) -> Self:
        """The batch of a spout; of `records`, only the columns matter."""
        index = [each.name for each in manifest.spouts].index(spout.name)
        if index >= MAX_SPOUTS:
            raise ComponentRefusedError(
                f"{spout.name!r} is spout number {index + 1} of topology {manifest.topology!r}, and positional roots "
                f"tell {MAX_SPOUTS} apart: declare it earlier, or split the topology"
            )
        stream = only_stream(spout)
        form: Literal["columns", "value", "payload"] = "value" if is_whole_value(stream) else "payload"
        made: dict[str, Column] = {}
        if fields is not None:
            form = "columns"
            chosen: list[Any] = [column.alias(name) for name, column in fields.items()]
            check_fields(records.select(*chosen).schema, stream, f"fields of spout {spout.name!r}")
            made = {name: fields[name].cast(kind) for name, kind in spark_fields(stream).items()}
        return cls(
            manifest,
            spout,
            form,
            SourceRoots(index, topic_key(topic_id), manifest.ack_partitions),
            made,
            KafkaSender(executor_settings(kafka)),
            sink_options(kafka),
        )

    def write(
        self, records: DataFrame, deliveries: Deliveries, wanted: Mapping[int, ReplayRequest] | None = None
    ) -> list[SourceRange]:
        """Delivers all records of Spark's Kafka source, or those that are wanted by partition, and returns which.

        `deliveries` is for one thread.
        """
        fields = [column.alias(FIELD + name) for name, column in self.fields.items()]
        deliver = Deliver(self.manifest, self.spout, self.form, self.roots, self.send, deliveries, wanted)
        made = records.select(*_KAFKAS, *fields).mapInArrow(deliver, OUT)
        made.write.format("kafka").options(**self.sink).save()
        # One task each, for nothing is shuffled.
        return deliveries.take(records.rdd.getNumPartitions())


def only_stream(spout: SpoutManifest) -> Stream:
    if len(spout.streams) != 1:
        raise ComponentRefusedError(
            f"spout {spout.name!r} has {len(spout.streams)} streams: a Spark spout emits exactly one, so declare a "
            "spout for each"
        )
    return spout.streams[0]

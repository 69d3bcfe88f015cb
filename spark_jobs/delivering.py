"""Messages of a spout's source into packs, inits and dead letters. Runs on executors.

A message is a tree, whose root encodes position and attempt. The edges of an attempt of a task are its own, and its
inits are in the log before the first of its tuples leaves; see ADR 23.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark import Accumulator, AccumulatorParam, SparkContext, TaskContext

from spark_jobs.entries import Send, dead_letter
from spark_jobs.errors import SparkJobError
from spark_jobs.frames import FrameCodec, StreamFrame
from spark_jobs.packing import LARGEST, Outputs, Roots, without
from tuple_tree.anchors import Rows
from tuple_tree.ids import IdColumn
from tuple_tree.messages import SpoutAddress
from tuple_tree.positions import ATTEMPT_BITS, OFFSET_BITS, PARTITION_BITS, roots_of_words
from tuple_tree.source_positions import Offsets

FIELD: Final = "_field_"
"""Stands before the name of a field, which may be called like a column of Kafka's."""

EXHAUSTED: Final = "retries-exhausted"
"""The reason of a dead letter whose last attempt failed."""

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


class ReplayRequest(NamedTuple):
    """Messages of one source partition that are delivered again."""

    offsets: Offsets  # in rising order
    attempts: Any  # the one to come, of each
    given_up: Mapping[int, str]  # offset → why it is not delivered any more


@dataclass(frozen=True)
class Messages:
    """How messages of a source are read; picklable.

    `columns`: Spark has made the fields under names with `FIELD`; `value`: the only field is the value as it is;
    `payload`: the value is a payload of the stream.
    """

    frame: StreamFrame
    form: Literal["columns", "value", "payload"]
    spout: int  # index in the manifest
    topic_key: int
    ack_partitions: int

    def fields(self, codec: FrameCodec, batch: Any) -> tuple[Any, dict[int, str]]:
        """The fields of messages, and what is wrong with those that cannot be read."""
        schema = self.frame.schema
        if self.form == "columns":
            return pa.record_batch([batch.column(FIELD + name) for name in schema.names], schema.names), {}
        value = batch.column("value")
        if self.form == "payload":
            columns, errors = codec.decode_each(value.to_pylist())
            return columns, {row: error.detail for row, error in errors.items()}
        try:
            return pa.record_batch([value.cast(schema.types[0])], schema), {}
        except pa.ArrowInvalid:
            texts, unread = [], {}
            for row, each in enumerate(value.to_pylist()):
                try:
                    texts.append(None if each is None else each.decode())
                except UnicodeDecodeError:
                    texts.append(None)
                    unread[row] = "the value is no UTF-8"
            return pa.record_batch([pa.array(texts, schema.types[0])], schema), unread

    def roots(self, partition: int, offsets: Offsets, attempts: Any) -> IdColumn:
        """The root of each message of a partition."""
        high = np.uint64(self.spout << PARTITION_BITS | partition) << np.uint64(OFFSET_BITS + ATTEMPT_BITS)
        words = high | offsets.astype(np.uint64) << np.uint64(ATTEMPT_BITS) | attempts.astype(np.uint64)
        return roots_of_words(words, [self.topic_key], self.ack_partitions)


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
        self._reported.add([(task.partitionId(), [each for each in ranges if len(each.offsets)])])

    def take(self, tasks: int) -> list[SourceRange]:
        """On the driver: what so many tasks have reported since the last call, each partition once."""
        # Spark only logs an accumulator that it cannot bring up to date.
        reported, self._reported.value = dict(self._reported.value), []
        if len(reported) < tasks:
            raise SparkJobError(
                f"{tasks - len(reported)} of {tasks} tasks have not reported what they delivered: see Spark's log, and "
                "start the spout again, it delivers the micro-batch once more"
            )
        partitions: dict[int, list[SourceRange]] = {}
        for ranges in reported.values():
            for each in ranges:
                partitions.setdefault(each.partition, []).append(each)
        return [
            SourceRange(
                partition,
                _distinct([each.offsets for each in ranges]),
                _distinct([each.dead for each in ranges]),
                sum(each.tuples for each in ranges),
            )
            for partition, ranges in partitions.items()
        ]


def _distinct(several: Sequence[Offsets]) -> Offsets:
    """All of them in order; `np.unique` of a column hashes, which takes ten times as long as merging runs."""
    merged: Offsets = np.sort(np.concatenate(several), kind="stable")
    distinct: Offsets = merged[np.diff(merged, prepend=merged[:1] - 1) != 0]
    return distinct


@dataclass(frozen=True)
class Deliver:
    """Makes records of messages, for `mapInArrow`; a tuple larger than `largest` bytes is a dead letter."""

    outputs: Outputs
    messages: Messages
    spout: SpoutAddress
    send: Send
    report: Callable[[list[SourceRange]], object]
    wanted: Mapping[int, ReplayRequest] | None = None  # by partition; None for all messages, for the first time
    largest: int = LARGEST

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Packs batches of messages: Kafka's columns, and the stream's fields where Spark has made them."""
        task = _Task(self)
        yield from task.roots.records(batches, task.add)
        self.report(task.ranges())


class _Task:
    """One attempt of a task."""

    def __init__(self, deliver: Deliver) -> None:
        self._deliver = deliver
        self._codec = FrameCodec(deliver.messages.frame)
        self._counts: Counter[str] = Counter()
        self.roots = Roots(deliver.outputs, deliver.spout, deliver.send, deliver.largest, self._count)
        self._offsets: dict[int, list[Offsets]] = {}
        self._dead: dict[int, list[int]] = {}
        self._tuples: Counter[int] = Counter()

    def _count(self, name: str, more: int) -> None:
        self._counts[name] += more

    def ranges(self) -> list[SourceRange]:
        return [
            SourceRange(
                partition,
                np.concatenate(offsets),
                np.array(sorted(self._dead.get(partition, ())), np.int64),
                self._tuples[partition],
            )
            for partition, offsets in self._offsets.items()
        ]

    def add(self, batch: Any) -> None:
        for partition, rows in _by_partition(batch.column("partition").to_numpy()):
            self._add(partition, batch.take(pa.array(rows)) if len(rows) < batch.num_rows else batch)

    def _add(self, partition: int, batch: Any) -> None:
        offsets = batch.column("offset").to_numpy()
        attempts = np.zeros(len(offsets), np.int64)
        given_up: dict[int, str] = {}
        if self._deliver.wanted is not None:
            wanted = self._deliver.wanted.get(partition)
            if wanted is None:
                return
            rows = np.flatnonzero(np.isin(offsets, wanted.offsets))
            batch, offsets = batch.take(pa.array(rows)), offsets[rows]
            attempts = wanted.attempts[np.searchsorted(wanted.offsets, offsets)]
            given_up = {
                row: wanted.given_up[offset] for row, offset in enumerate(offsets.tolist()) if offset in wanted.given_up
            }
        self._offsets.setdefault(partition, []).append(offsets)
        fields, unread = self._deliver.messages.fields(self._codec, batch)
        alive = without(np.arange(len(offsets)), [*unread, *given_up])
        roots = self._deliver.messages.roots(partition, offsets, attempts)
        before = self._counts["transferred"]
        unfit = self.roots.emit(fields, roots, alive)
        self._tuples[partition] += self._counts["transferred"] - before
        for row, detail in given_up.items():
            self._set_aside(batch, row, EXHAUSTED, detail)
        for row, detail in {**unread, **unfit}.items():
            if row not in given_up:
                self._set_aside(batch, row, "bad-payload", detail)

    def _set_aside(self, batch: Any, row: int, reason: str, detail: str) -> None:
        """Makes a dead letter of a message."""
        topic, partition, offset, key, value, headers = (
            batch.column(name)[row].as_py() for name in ("topic", "partition", "offset", "key", "value", "headers")
        )
        outputs = self._deliver.outputs
        letter = dead_letter(
            outputs.topology,
            (topic, partition, offset),
            reason=reason,
            detail=detail[:_DETAIL],
            by=f"{outputs.component}/{self._deliver.spout.task}",
            key=key,
            value=value,
            headers=[(header["key"], header["value"]) for header in headers or ()],
        )
        self.roots.packing.add(letter)
        self._dead.setdefault(partition, []).append(offset)


def _by_partition(partitions: Any) -> Iterator[tuple[int, Rows]]:
    if len(partitions) and (partitions == partitions[0]).all():
        yield int(partitions[0]), np.arange(len(partitions))
        return
    for partition in np.unique(partitions).tolist():
        yield partition, np.flatnonzero(partitions == partition)

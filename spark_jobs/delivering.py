"""Messages of a spout's source into packs, inits and dead letters, which tasks send.

A message is a tree, whose root encodes position and attempt. The edges of an attempt of a task are its own, and its
inits are in the log before the first of its tuples leaves; see ADR 23.
"""

from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame

from spark_jobs.entries import KafkaSender, Send, dead_letter
from spark_jobs.errors import ComponentRefusedError
from spark_jobs.frames import FrameCodec, spark_fields
from spark_jobs.kafka_options import executor_settings
from spark_jobs.packing import LARGEST, Packing, without
from spark_jobs.tasks import run_tasks
from spark_jobs.transform import check_fields
from tuple_tree.components import SpoutManifest
from tuple_tree.errors import WireError
from tuple_tree.ids import IdColumn
from tuple_tree.manifest import Manifest
from tuple_tree.positions import (
    ATTEMPT_BITS,
    MAX_ATTEMPTS,
    MAX_OFFSET,
    MAX_PARTITIONS,
    MAX_SPOUTS,
    OFFSET_BITS,
    PARTITION_BITS,
    roots_of_words,
    topic_key,
    words_of_roots,
)
from tuple_tree.streams import StreamDeclaration, source_stream

FIELD: Final = "_field_"
"""Stands before the name of a field, which may be called like a column of Kafka's."""

ATTEMPT: Final = "_attempt_"
GIVEN_UP: Final = "_given_up_"
"""Columns of messages that are delivered again: the attempt to come, and why there is none."""

_UNREADABLE: Final = "bad-payload"

_OF_LETTERS: Final = ("topic", "partition", "offset", "key", "value", "headers")
"""Kafka's columns, which a dead letter needs."""

Positions = NDArray[np.int64]
"""Partition and offset of messages in one number, as in a positional root; shape `(n,)`."""


class Delivered(NamedTuple):
    """The positions of a source that were delivered; pickled as runs without a gap."""

    positions: Positions  # in rising order
    dead: Positions  # of messages that became dead letters
    tuples: int  # deliveries, one for each recipient
    details: Mapping[int, str] = MappingProxyType({})  # of dead letters, by position, if their outcomes are written

    @property
    def letters(self) -> dict[int, WireError]:
        """Why messages became dead letters, by position."""
        return {each: WireError(_UNREADABLE, self.details.get(each, "")) for each in self.dead.tolist()}

    def __reduce__(self) -> tuple[Any, ...]:
        begins = np.flatnonzero(np.diff(self.positions, prepend=self.positions[:1] - 2) != 1)
        sizes = np.diff(begins, append=len(self.positions))
        return _of_runs, (self.positions[begins], sizes, self.dead, self.tuples, dict(self.details))


def _of_runs(
    starts: Positions, sizes: Positions, dead: Positions, tuples: int, details: Mapping[int, str]
) -> Delivered:
    firsts = np.cumsum(sizes) - sizes
    return Delivered(np.arange(sizes.sum()) + np.repeat(starts - firsts, sizes), dead, tuples, details)


NOTHING: Final = Delivered(np.empty(0, np.int64), np.empty(0, np.int64), 0)


def together(several: Iterable[Delivered]) -> Delivered:
    """Merges the reports of the tasks of a write."""
    positions, dead, tuples, details = zip(NOTHING, *several, strict=True)
    return Delivered(_distinct(positions), _distinct(dead), sum(tuples), dict(ChainMap(*map(dict, details))))


def _distinct(several: Sequence[Positions]) -> Positions:
    """All of them in order; `np.unique` of a column hashes, which takes ten times as long as merging runs."""
    merged: Positions = np.sort(np.concatenate(several), kind="stable")
    distinct: Positions = merged[np.diff(merged, prepend=-1) != 0]
    return distinct


@dataclass(frozen=True)
class SourceRoots:
    """The positional roots of the messages of a source; picklable."""

    spout: int  # index in the manifest
    topic_key: int
    ack_partitions: int

    def roots(self, positions: Positions, attempts: Any) -> IdColumn:
        """The root of each message."""
        places = np.uint64(self.spout << PARTITION_BITS + OFFSET_BITS) | positions.astype(np.uint64)
        words = places << np.uint64(ATTEMPT_BITS) | attempts.astype(np.uint64)
        return roots_of_words(words, [self.topic_key], self.ack_partitions)

    def positions(self, roots: IdColumn) -> tuple[NDArray[np.bool_], Positions, NDArray[np.int64]]:
        """Whether each root is one of these, and its position and attempt."""
        words = words_of_roots(roots, self.topic_key, self.ack_partitions)
        attempts = words & np.uint64(MAX_ATTEMPTS - 1)
        spouts, positions = np.divmod(words >> np.uint64(ATTEMPT_BITS), np.uint64(MAX_PARTITIONS * MAX_OFFSET))
        return spouts == self.spout, positions.astype(np.int64), attempts.astype(np.int64)


def deliver(
    manifest: Manifest,
    spout: SpoutManifest,
    roots: SourceRoots,
    has_fields: bool,
    decoded_as: StreamDeclaration | None,
    send: Send,
    batches: Iterable[Any],
    largest: int = LARGEST,
) -> Delivered:
    """Delivers the messages of batches, and returns which; a tuple larger than `largest` bytes is a dead letter.

    A batch has Kafka's columns and, if `has_fields`, those of the stream's fields, under names with `FIELD`. Those of
    replays have `ATTEMPT` and `GIVEN_UP` as well. `decoded_as` is the stream with whose codec messages are decoded;
    None if the only field is their value.
    """
    task = _DeliverTask(manifest, spout, roots, has_fields, decoded_as)
    packing = Packing(manifest, spout, send, largest)
    counts = packing.run(batches, partial(task.add, packing))
    return Delivered(_distinct(task.positions), _distinct(task.dead), counts["transferred"], task.details)


class _DeliverTask:
    """One attempt of a task."""

    def __init__(
        self,
        manifest: Manifest,
        spout: SpoutManifest,
        roots: SourceRoots,
        has_fields: bool,
        decoded_as: StreamDeclaration | None,
    ) -> None:
        self._topology = manifest.topology
        self._by = f"{spout.name}/0"
        self._roots = roots
        self._has_fields = has_fields
        self._is_value = decoded_as is None
        self._codec = FrameCodec(decoded_as or spout.streams[0])
        self.positions = [NOTHING.positions]
        self.dead = [NOTHING.dead]
        self.details: dict[int, str] = {}
        self._writes_outcomes = spout.outcomes is not None

    def add(self, packing: Packing, batch: Any) -> None:
        partitions = batch.column("partition").to_numpy().astype(np.int64)
        positions = partitions << OFFSET_BITS | batch.column("offset").to_numpy()
        attempts: Any = np.uint8(0)
        dead: dict[int, WireError] = {}
        if ATTEMPT in batch.schema.names:
            attempts = batch.column(ATTEMPT).to_numpy()
            reasons = enumerate(batch.column(GIVEN_UP).to_pylist())
            dead = {row: WireError("retries-exhausted", why) for row, why in reasons if why is not None}
        fields, unread = self._fields(batch)
        alive = without(np.arange(len(positions)), [*unread, *dead])
        unfit = packing.begin(fields, self._roots.roots(positions, attempts), alive)
        for row, detail in {**unread, **unfit}.items():
            dead.setdefault(row, WireError(_UNREADABLE, detail))
        for row, why in dead.items():
            topic, partition, offset, key, value, headers = (batch.column(name)[row].as_py() for name in _OF_LETTERS)
            own = [(header["key"], header["value"]) for header in headers or ()]
            packing.add(dead_letter(self._topology, self._by, (topic, partition, offset), why, key, value, own))
        self.positions.append(positions)
        self.dead.append(positions[list(dead)])
        if self._writes_outcomes:
            self.details.update((int(positions[row]), why.detail) for row, why in dead.items())

    def _fields(self, batch: Any) -> tuple[Any, dict[int, str]]:
        """The fields of messages, and the errors of unreadable messages."""
        schema = self._codec.schema
        if self._has_fields:
            return pa.record_batch([batch.column(FIELD + name) for name in schema.names], schema.names), {}
        value = batch.column("value")
        if self._is_value:
            # As it is: text that is not UTF-8 is found with all else that does not fit the stream.
            return pa.record_batch([value.view(schema.types[0])], schema), {}
        return self._codec.decode_each(value.to_pylist())


class SpoutBatch:
    """The arguments that all writes of a spout share; of `records` and `fields`, only the columns matter.

    `decoded_as`: see `deliver`.
    """

    def __init__(
        self,
        manifest: Manifest,
        spout: SpoutManifest,
        records: DataFrame,
        fields: Mapping[str, Column] | None,
        decoded_as: StreamDeclaration | None,
        kafka: Mapping[str, Any],
        topic_id: str,
    ) -> None:
        index = [each.name for each in manifest.spouts].index(spout.name)
        if index >= MAX_SPOUTS:
            raise ComponentRefusedError(
                f"{spout.name!r} is spout number {index + 1} of topology {manifest.topology!r}, and positional roots "
                f"can have {MAX_SPOUTS}: declare it earlier, or split the topology"
            )
        self.manifest, self.spout = manifest, spout
        self.roots = SourceRoots(index, topic_key(topic_id), manifest.ack_partitions)
        self.send = KafkaSender(executor_settings(kafka))  # of inits and dead letters
        self._columns: list[Any] = [*_OF_LETTERS]
        stream = only_stream(spout)
        if fields is not None:
            chosen: list[Any] = [column.alias(name) for name, column in fields.items()]
            check_fields(records.select(*chosen).schema, stream, f"fields of spout {spout.name!r}")
            kinds = spark_fields(stream).items()
            self._columns += [fields[name].cast(kind).alias(FIELD + name) for name, kind in kinds]
        self._deliver = partial(deliver, manifest, spout, self.roots, fields is not None, decoded_as, self.send)

    def write(self, records: DataFrame) -> Delivered:
        """Delivers all records of Spark's Kafka source, and returns which."""
        return self._write(records.select(*self._columns), "new messages")

    def replay(self, records: DataFrame) -> Delivered:
        """Delivers records of `SourceReader` again, and returns which; may be called while another thread writes."""
        return self._write(records.select(*self._columns, ATTEMPT, GIVEN_UP), "replays")

    def _write(self, rows: DataFrame, what: str) -> Delivered:
        name = f"{self.manifest.topology}.{self.spout.name}: {what}"
        return together(run_tasks(rows, self._deliver, name))


def landed_as(stream: StreamDeclaration) -> StreamDeclaration | None:
    """The stream with whose codec rows land; None if the value of a message is the only field."""
    return stream if source_stream(stream) is not None else None


def only_stream(spout: SpoutManifest) -> StreamDeclaration:
    if len(spout.streams) != 1:
        raise ComponentRefusedError(
            f"spout {spout.name!r} has {len(spout.streams)} streams: a Spark spout emits exactly one, so declare a "
            "spout for each"
        )
    return spout.streams[0]

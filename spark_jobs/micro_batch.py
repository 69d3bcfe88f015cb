"""A micro-batch of a bolt: two writes, the second of which begins when the first is delivered; see ADR 22.

    Kafka ── Unpack ── transform ── Pack ──▶ tuples, and an ack entry (root, edge) for each     write 1
    Kafka ── InputAcks ──▶ an ack entry (root, edge) for each input                             write 2

A bolt that ends in a sink has no write 1 of its own: `sink(rows, batch_id)` writes where it likes.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from spark_jobs.components import is_sink
from spark_jobs.counts import BatchResult, Counts
from spark_jobs.entries import OUT, Send
from spark_jobs.errors import ComponentRefusedError
from spark_jobs.frames import StreamFrame
from spark_jobs.input_acks import InputAcks
from spark_jobs.packing import Outputs, Pack
from spark_jobs.records_in import Sources, Unpack
from spark_jobs.results import check_result, fields_in, without_state
from spark_jobs.tracking import SOURCE, TRACKING, TRACKING_TYPE
from tuple_tree.manifest import BoltManifest, Manifest
from tuple_tree.names import tuples_topic

_ACKS_A_TASK: Final = 100_000
"""Inputs that a task of write 2 acks, about: a task takes some 20 ms whatever it does, and these 50."""

Transform = Callable[[DataFrame], DataFrame]
Sink = Callable[[DataFrame, int], object]


class BoltBatch:
    """What every micro-batch of a bolt has in common."""

    def __init__(
        self,
        manifest: Manifest,
        bolt: BoltManifest,
        transform: Transform | Sink,
        kafka: Mapping[str, str],
        send: Send,
    ) -> None:
        topology, name = manifest.topology, bolt.name
        received = {
            f"{each.source}/{each.stream}": StreamFrame(manifest.stream(each.source, each.stream))
            for each in bolt.subscriptions
        }
        for source, frame in received.items():
            for reserved in {SOURCE, TRACKING} & {*frame.schema.names}:
                raise ComponentRefusedError(
                    f"bolt {name!r} receives field {reserved!r} from {source}, which names a column of Spark jobs: "
                    "rename the field"
                )
        self._outputs = Outputs.of(manifest, name)
        self._sources = Sources(topology, name, tuples_topic(topology, name), received, self._outputs.log)
        self._fields = fields_in(received, name)
        self._emitted = {stream: frame for stream, (frame, _) in self._outputs.streams.items()}
        self._is_sink = is_sink(transform)
        if self._is_sink and bolt.streams:
            raise ComponentRefusedError(
                f"the function of bolt {name!r} takes rows and a batch id, so it is a sink, and the bolt has streams: "
                "declare none, or give it a function of rows alone that returns what to emit"
            )
        self._function: Any = transform
        self._kafka = kafka
        self._send = send
        self._counts: Counts | None = None

    @property
    def row_type(self) -> StructType:
        """What `transform` receives: the fields of all streams, `_source` and `_tracking`."""
        ours = StructType.fromDDL(f"{SOURCE} string, {TRACKING} {TRACKING_TYPE}")
        assert isinstance(ours, StructType)  # noqa: S101 - for the type checker
        return StructType([*[StructField(name, kind) for name, kind in self._fields.items()], *ours])

    def check(self, rows: DataFrame) -> None:
        """Checks the result of `transform` for these rows; a sink is not called."""
        if not self._is_sink:
            with without_state(self._outputs.component, rows):
                result = self._function(rows)
            check_result(result, self._outputs.component, self._emitted)

    def run(self, records: DataFrame, batch_id: int, session: bytes) -> BatchResult:
        """Processes records of Spark's Kafka source and writes everything that comes of them.

        `session` is the id of the query, which lives in its checkpoint, as 16 bytes.
        """
        began = time.monotonic()
        counts = self._counts = self._counts or Counts(records.sparkSession.sparkContext)
        before = counts.values()
        inputs = records.select("key", "value", "partition", "offset", "headers")
        rows = inputs.mapInArrow(Unpack(self._sources, self._send, counts), self.row_type)
        if self._is_sink:
            self._function(rows.drop(TRACKING), batch_id)
        else:
            result = self._function(rows)
            check_result(result, self._outputs.component, self._emitted)
            self._write(result.mapInArrow(Pack(self._outputs, count=counts), OUT))
        if self._outputs.log is not None:
            acks = InputAcks(self._outputs.component, self._outputs.log, session, batch_id, counts)
            tasks = max(1, (counts.values()["executed"] - before["executed"]) // _ACKS_A_TASK)
            self._write(inputs.select("partition", "headers").coalesce(tasks).mapInArrow(acks, OUT))
        counted = {name: value - before[name] for name, value in counts.values().items()}
        return BatchResult(
            rows=counted["executed"] + counted["dead"],
            tuples=counted["transferred"],
            acks=counted["acks"],
            failed=counted["failed"],
            dead=counted["dead"],
            seconds=time.monotonic() - began,
            emitted=counted["emitted"],
            acked=None if counted["failed"] else counted["executed"],
        )

    def _write(self, records: DataFrame) -> None:
        records.write.format("kafka").options(**self._kafka).save()

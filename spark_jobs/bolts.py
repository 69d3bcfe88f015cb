"""A bolt as a Structured Streaming query, whose micro-batches write twice; see ADR 22.

    Kafka ── unpack ── transform ── pack ──▶ tuples, and an ack entry (root, edge) for each     write 1
               └─ reports ── send_reported_acks ──▶ an ack entry (root, edge) for each input            write 2

Write 2 begins when write 1 is delivered. A bolt without streams has a sink in place of write 1: `sink(rows, batch_id)`
writes where it likes.
"""

import time
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import BinaryType, DataType, StringType, StructField, StructType

from spark_jobs.checkpoint import claim_checkpoint
from spark_jobs.components import HasManifest, check_function, component_of, topics_of
from spark_jobs.driver_stats import BatchResult
from spark_jobs.entries import KafkaSender
from spark_jobs.errors import ComponentRefusedError
from spark_jobs.frames import spark_fields
from spark_jobs.inbox import InputAcks, PartitionRead, ack_unreported, received, send_reported_acks, smaller, unpack
from spark_jobs.kafka_options import check_topics, executor_settings, source_options
from spark_jobs.packages import check_session
from spark_jobs.packing import pack
from spark_jobs.running_query import BatchRunner, RunningQuery
from spark_jobs.tasks import SideReports, run_tasks
from spark_jobs.transform import SOURCE, TRACKING, Sink, Transform, check_result, without_state
from tuple_tree.components import BoltManifest
from tuple_tree.manifest import Manifest
from tuple_tree.names import tuples_topic

_RECORDS: Final = 200_000
_PACKS: Final = 1_000

_SPLITTING: Final = ("minpartitions", "maxrecordsperpartition")
"""Options with which several tasks read a partition: its anchors have to have one order, and one report."""


def bolt(
    spark: SparkSession,
    topology: Manifest | HasManifest,
    name: str,
    transform: Transform | Sink,
    *,
    kafka: Mapping[str, Any],
    checkpoint: str,
    max_rows: int | None = None,
    trigger: Mapping[str, Any] | None = None,
    options: Mapping[str, str] | None = None,
) -> RunningQuery:
    """Starts a bolt.

    `transform` receives the fields of all streams that the bolt is subscribed to, null where a stream has no such
    field; `_source`, the `component/stream` that a row came from; and `_tracking`, which its result must keep. The
    result has the fields of the bolt's streams; further columns are ignored. Of what it may add, `_fail` marks rows as
    failed (see `mark_failed`), and `_stream` says which stream a row is for where the bolt has several.

    It is called for each micro-batch. A micro-batch that is run again, because the driver died, emits its tuples again.

    A bolt without streams is given `sink(rows, batch_id)` instead, which receives the same without `_tracking` and
    writes it wherever Spark writes. Inputs are acked when it has returned. A micro-batch that is run again has the same
    rows and the same id.

    Args:
        spark: a session with the packages, see `spark_jobs.session`.
        topology: as built, or its manifest.
        name: name of the bolt.
        transform: takes rows and returns rows; for a bolt without streams, its sink.
        kafka: librdkafka properties; at least `bootstrap.servers`.
        checkpoint: directory for this bolt only; on a cluster, on a file system that all its machines share.
        max_rows: records of a micro-batch, 0 for all that is there. Unless given, 200,000, or 1,000 where records carry
            packs.
        trigger: keyword arguments for Spark's `trigger`, such as `{"processingTime": "1 second"}`.
        options: further options of Spark's Kafka source, such as `kafkaConsumer.pollTimeoutMs`.

    Raises:
        ComponentRefusedError: if the topology has no such bolt.
        TopicsRefusedError: if its topics do not exist, or have other settings than they must have.
        TransformRefusedError: if the result of `transform` for an empty DataFrame does not fit the bolt's streams.
        CheckpointRefusedError: if the checkpoint belongs to another query.
        SparkJobError: if the session runs tasks speculatively.
    """
    manifest, component = component_of(topology, name, BoltManifest)
    check_session(spark)
    for option in options or {}:
        if option.lower() in _SPLITTING:
            raise ComponentRefusedError(
                f"bolt {name!r} has option {option}: each partition of its inbox is read by one task, so leave it out, "
                "and give the bolt more tasks"
            )
    batch = BoltBatch(spark, manifest, component, transform, kafka)
    check_topics(kafka, topics_of(manifest, component))
    claim_checkpoint(spark, checkpoint, {"topology": manifest.topology, "component": name, "kind": "bolt"})
    if max_rows is None:
        codecs = {manifest.stream(each.source, each.stream).codec for each in component.subscriptions}
        max_rows = _PACKS if "arrow" in codecs else _RECORDS
    runner = BatchRunner(manifest.topology, component, batch.run)
    read = {
        **source_options(kafka),
        "subscribe": tuples_topic(manifest.topology, name),
        "includeHeaders": "true",
        # Bolts of the SDK may write in transactions, and do again what they abort: no setting changes this.
        "kafka.isolation.level": "read_committed",
        "startingOffsets": "earliest",
        # Offsets out of range were not acked, so their trees are replayed; the query continues.
        "failOnDataLoss": "false",
        **({"maxOffsetsPerTrigger": str(max_rows)} if max_rows else {}),
        **(options or {}),
    }
    return RunningQuery(runner, runner.start(spark, read, checkpoint, trigger), kafka)


class BoltBatch:
    """The parts that all micro-batches of a bolt share.

    `transform` is called once with no rows, whose result is checked; a sink is not.
    """

    def __init__(
        self,
        spark: SparkSession,
        manifest: Manifest,
        bolt: BoltManifest,
        transform: Transform | Sink,
        kafka: Mapping[str, Any],
    ) -> None:
        self._manifest = manifest
        self._bolt = bolt
        self._emitted = {stream.name: stream for stream in bolt.streams}
        self._function = cast(Any, transform)
        check_function(bolt, transform)
        types: dict[str, DataType] = {}
        for source, stream in received(manifest, bolt).items():
            for name, kind in spark_fields(stream).items():
                where = f"bolt {bolt.name!r} receives field {name!r}"
                if name in (SOURCE, TRACKING):
                    raise ComponentRefusedError(
                        f"{where} from {source}, which names a column of Spark jobs: rename the field"
                    )
                known = types.setdefault(name, kind)
                if known != kind:
                    raise ComponentRefusedError(
                        f"{where} as {known.simpleString()}, and from {source} as {kind.simpleString()}: a DataFrame "
                        "has one type a column, so rename one"
                    )
        types |= {SOURCE: StringType(), TRACKING: BinaryType()}
        # Of the rows that `transform` receives.
        self._row_type = StructType([StructField(name, kind) for name, kind in types.items()])
        self._send = KafkaSender(executor_settings(kafka))
        self._reads = SideReports(spark.sparkContext, smaller)
        if self._emitted:
            rows = spark.createDataFrame([], self._row_type)
            with without_state(bolt.name, rows):
                result = self._function(rows)
            check_result(result, bolt.name, self._emitted)

    def run(self, records: DataFrame, batch_id: int, session: bytes) -> BatchResult:
        """Processes records of Spark's Kafka source and writes everything that comes of them.

        `session` is the id of the query, which lives in its checkpoint, as 16 bytes.
        """
        began = time.monotonic()
        name = f"{self._manifest.topology}.{self._bolt.name}, micro-batch {batch_id}"
        inputs = records.select("key", "value", "partition", "offset", "headers")
        acks, report = InputAcks(self._manifest, self._bolt.name, session, batch_id), partial(self._reads.add, batch_id)
        read = partial(unpack, self._manifest, self._bolt, self._send, acks, report)
        rows = inputs.mapInArrow(read, self._row_type)
        written, earlier = Counter[str](), dict[int, PartitionRead]()
        if not self._emitted:
            self._function(rows.drop(TRACKING), batch_id)
        else:
            result = self._function(rows)
            check_result(result, self._bolt.name, self._emitted)
            # Of actions that `transform` ran: a broker may have deleted records since then, so they ack nothing.
            earlier = self._reads.take(batch_id)
            write = partial(pack, self._manifest, self._bolt, self._send)
            for counts in run_tasks(result, write, f"{name}: write 1, tuples"):
                written.update(counts)
        reads = self._reads.take(batch_id)
        counted = earlier | reads
        executed, acked = sum(each.executed for each in counted.values()), 0
        if self._manifest.acking:
            acked = send_reported_acks(self._send, reads.values())
            if len(reads) < records.rdd.getNumPartitions():
                others = inputs.where(~F.col("partition").isin([*reads])).select("partition", "headers")
                ack = partial(ack_unreported, acks, self._send)
                for again in run_tasks(others, ack, f"{name}: write 2, acks of inputs"):
                    acked += sum(again.values())
                    executed += sum(anchors for partition, anchors in again.items() if partition not in counted)
        dead = written["dead"] + sum(each.dead for each in counted.values())
        return BatchResult(
            rows=executed + dead,
            tuples=written["transferred"],
            acks=acked,
            failed=written["failed"],
            dead=dead,
            seconds=time.monotonic() - began,
            emitted=written["emitted"],
            acked=None if written["failed"] else executed,
        )

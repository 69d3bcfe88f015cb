"""A bolt as a Structured Streaming query."""

from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from spark_jobs.checkpoint import claim_checkpoint
from spark_jobs.components import HasManifest, component_of, topics_of
from spark_jobs.counts import BatchResult, Tally
from spark_jobs.driver_stats import DriverStats, InboxOffsets
from spark_jobs.entries import KafkaSender
from spark_jobs.errors import ComponentRefusedError
from spark_jobs.kafka_options import check_topics, executor_settings, sink_options, source_options
from spark_jobs.micro_batch import BoltBatch, Sink, Transform
from spark_jobs.packages import check_session
from spark_jobs.running_query import BatchRunner, RunningQuery
from tuple_tree.manifest import BoltManifest, Manifest
from tuple_tree.names import component_group, tuples_topic

_RECORDS: Final = 200_000
_PACKS: Final = 1_000

_SPLITTING: Final = ("minpartitions", "maxrecordsperpartition")
"""Options with which several tasks read a partition: the acks of its inputs have to have one order."""


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

    A bolt without streams may be given a function `sink(rows, batch_id)` instead, which receives the same without
    `_tracking` and writes it wherever Spark writes. Inputs are acked when it has returned. A micro-batch that is run
    again has the same rows and the same id.

    Args:
        spark: a session with the packages, see `spark_jobs.session`.
        topology: as built, or its manifest.
        name: of the bolt.
        transform: rows in, rows out; or a sink.
        kafka: librdkafka properties; at least `bootstrap.servers`.
        checkpoint: directory that is this bolt's own; on a cluster, on a file system that all its machines see.
        max_rows: records of a micro-batch, 0 for all that is there. Unless given, 200,000, or 1,000 where records carry
            packs.
        trigger: keyword arguments for Spark's `trigger`, such as `{"processingTime": "1 second"}`.
        options: further options of Spark's Kafka source, such as `kafkaConsumer.pollTimeoutMs`.

    Raises:
        ComponentRefusedError: if the topology has no such bolt.
        TopicsRefusedError: if its topics are not there, or not as they have to be.
        TransformRefusedError: if an empty DataFrame put through `transform` is not what the bolt has to emit.
        CheckpointRefusedError: if the checkpoint belongs to something else.
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
    # A batch of entries that the client sent twice would cancel, and the ack of their input come too early. With
    # several requests under way a client that gives one up begins a new epoch, and sends the others once more.
    once = {"kafka.enable.idempotence": "true", "kafka.max.in.flight.requests.per.connection": "1"}
    sink = {**sink_options(kafka), "kafka.acks": "all", **once}
    batch = BoltBatch(manifest, component, transform, sink, KafkaSender(executor_settings(kafka)))
    batch.check(spark.createDataFrame([], batch.row_type))
    check_topics(kafka, topics_of(manifest, component))
    claim_checkpoint(spark, checkpoint, {"topology": manifest.topology, "component": name, "kind": "bolt"})
    tally = Tally(component)
    if max_rows is None:
        codecs = {manifest.stream(each.source, each.stream).codec for each in component.subscriptions}
        max_rows = _PACKS if "arrow" in codecs else _RECORDS

    def run(records: DataFrame, batch_id: int, session: bytes) -> BatchResult:
        result = batch.run(records, batch_id, session)
        tally.add(result)
        return result

    runner = BatchRunner(f"{manifest.topology}.{name}", run)
    read = {
        **source_options(kafka),
        "subscribe": tuples_topic(manifest.topology, name),
        "includeHeaders": "true",
        # Bolts of the SDK may write in transactions, and do again what they abort: no setting changes this.
        "kafka.isolation.level": "read_committed",
        "startingOffsets": "earliest",
        # Offsets out of range were not acked, so their trees are replayed; the query goes on.
        "failOnDataLoss": "false",
        **({"maxOffsetsPerTrigger": str(max_rows)} if max_rows else {}),
        **(options or {}),
    }
    inbox = InboxOffsets(kafka, component_group(manifest.topology, name))
    runner.on_end_offsets = inbox.reached
    query = runner.start(spark, read, checkpoint, trigger)
    stats = DriverStats(kafka, manifest.topology, name, tally.stats, lambda: query.isActive, inbox)
    return RunningQuery(query, runner, stats)

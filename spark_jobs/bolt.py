"""A bolt as a Structured Streaming query."""

from collections.abc import Mapping
from typing import Any, Final, Protocol

from pyspark.sql import DataFrame, SparkSession

from spark_jobs.checkpoint import claim_checkpoint
from spark_jobs.driver_stats import driver_stats
from spark_jobs.errors import ComponentRefusedError
from spark_jobs.inbox import inbox_of
from spark_jobs.kafka_options import check_topics, sink_options, source_options
from spark_jobs.micro_batch import BoltBatch, Transform, Written
from spark_jobs.outputs import check_result, outputs_of
from spark_jobs.running_query import BatchRunner, RunningQuery
from spark_jobs.tallies import BoltTally
from tuple_tree.manifest import BoltManifest, Component, Manifest
from tuple_tree.names import acks_topic, dead_letters_topic, tuples_topic

DEFAULT_MAX_ROWS: Final = 200_000


class HasManifest(Protocol):
    """A topology as `TopologyBuilder.build` returns it."""

    @property
    def manifest(self) -> Manifest:
        """What it is."""
        ...


def manifest_of(topology: Manifest | HasManifest) -> Manifest:
    """The manifest of whatever stands for a topology."""
    return topology if isinstance(topology, Manifest) else topology.manifest


def component_of(manifest: Manifest, name: str) -> Component:
    """A component of the topology.

    Raises:
        ComponentRefusedError: if there is none.
    """
    try:
        return manifest.component(name)
    except ValueError as error:
        raise ComponentRefusedError(f"{error}; name one of these") from None


def bolt(
    spark: SparkSession,
    topology: Manifest | HasManifest,
    name: str,
    transform: Transform,
    *,
    kafka: Mapping[str, Any],
    checkpoint: str,
    max_rows: int | None = DEFAULT_MAX_ROWS,
    lanes: int = 1,
    trigger: Mapping[str, Any] | None = None,
    options: Mapping[str, str] | None = None,
) -> RunningQuery:
    """Starts a bolt.

    `transform` receives the fields of all streams that the bolt is subscribed to, null where a stream has no such
    field; `_source`, the `component/stream` that a row came from; and `_tracking`, which its result must keep. The
    result has the fields of the bolt's streams; further columns are ignored. Of what it may add, `_fail` marks rows as
    failed (see `mark_failed`), and `_stream` says which stream a row is for where the bolt has several.

    It is called for each micro-batch, and must be a function of its rows: random values, or the time, in fields that
    are emitted make a repeated micro-batch emit other tuples.

    Args:
        spark: a session with the packages, see `spark_jobs.session`.
        topology: as built, or its manifest.
        name: of the bolt.
        transform: rows in, rows out.
        kafka: librdkafka properties; at least `bootstrap.servers`.
        checkpoint: directory that is this bolt's own; on a cluster, on a file system that all its machines see.
        max_rows: of a micro-batch; None for all that is there.
        lanes: how many Spark tasks write to each partition of the ack log; never changed for a checkpoint.
        trigger: keyword arguments for Spark's `trigger`, such as `{"processingTime": "1 second"}`.
        options: further options of Spark's Kafka source, such as `minPartitions`.

    Raises:
        ComponentRefusedError: if the topology has no such bolt.
        TopicsRefusedError: if its topics are not there, or not as they have to be.
        TransformRefusedError: if an empty DataFrame put through `transform` is not what the bolt has to emit.
        CheckpointRefusedError: if the checkpoint belongs to something else.
    """
    manifest = manifest_of(topology)
    found = component_of(manifest, name)
    if not isinstance(found, BoltManifest):
        raise ComponentRefusedError(f"{name!r} is a spout of topology {manifest.topology!r}: name a bolt")
    if lanes < 1:
        raise ComponentRefusedError(f"bolt {name!r} has {lanes} lanes: it must be at least 1")
    inbox, outputs = inbox_of(spark, manifest, found), outputs_of(spark, manifest, name)
    check_result(transform(spark.createDataFrame([], inbox.row_type)), outputs)
    check_topics(kafka, _topics(manifest, found))
    claim_checkpoint(
        spark, checkpoint, {"topology": manifest.topology, "component": name, "kind": "bolt", "lanes": lanes}
    )
    batch = BoltBatch(inbox, outputs, transform, sink_options(kafka), lanes)
    tally = BoltTally(found)

    def open_session(records: DataFrame, session: bytes) -> None:
        batch.open(records.sparkSession, session)

    def run(records: DataFrame, batch_id: int, query_id: str, session: bytes) -> Written:
        written = batch.run(records, batch_id, query_id, session)
        tally.add(written)
        return written

    query_name = f"{manifest.topology}.{name}"
    runner = BatchRunner(query_name, open_session, run)
    read = {
        **source_options(kafka),
        "subscribe": tuples_topic(manifest.topology, name),
        "includeHeaders": "true",
        # Bolts of the SDK may write in transactions, and do again what they abort: nobody's settings change this.
        "kafka.isolation.level": "read_committed",
        "startingOffsets": "earliest",
        # What the broker deleted unread was not acked, so it is replayed; a query that refuses to go on helps nobody.
        "failOnDataLoss": "false",
        **({} if max_rows is None else {"maxOffsetsPerTrigger": str(max_rows)}),
        **(options or {}),
    }
    writer = (
        spark.readStream.format("kafka")
        .options(**read)
        .load()
        .writeStream.queryName(query_name)
        .option("checkpointLocation", checkpoint)
        .foreachBatch(runner)
    )
    if trigger:
        writer = writer.trigger(**trigger)
    query = writer.start()
    stats = driver_stats(kafka, manifest.topology, name, tally.stats, lambda: query.isActive)
    stats.start()
    return RunningQuery(query, runner, stats)


def _topics(manifest: Manifest, found: BoltManifest) -> dict[str, int]:
    topics = {tuples_topic(manifest.topology, found.name): found.tasks, dead_letters_topic(manifest.topology): 1}
    for receiver in manifest.bolts:
        if any(subscription.source == found.name for subscription in receiver.subscriptions):
            topics[tuples_topic(manifest.topology, receiver.name)] = receiver.tasks
    if manifest.acking:
        topics[acks_topic(manifest.topology)] = manifest.ack_partitions
    return topics

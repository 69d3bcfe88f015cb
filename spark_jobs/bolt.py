"""A bolt as a Structured Streaming query."""

from collections.abc import Mapping
from typing import Any, Final, Protocol

from pyspark.sql import DataFrame, SparkSession

from spark_jobs.checkpoint import claim_checkpoint
from spark_jobs.driver_stats import driver_stats
from spark_jobs.errors import ComponentRefusedError
from spark_jobs.inbox_offsets import InboxOffsets
from spark_jobs.kafka_options import check_topics, sink_options, source_options
from spark_jobs.micro_batch import BatchResult, BoltBatch, Sink, Transform
from spark_jobs.packages import check_session
from spark_jobs.running_query import BatchRunner, RunningQuery
from spark_jobs.tallies import BoltTally
from tuple_tree.manifest import BoltManifest, Component, Manifest
from tuple_tree.names import acks_topic, component_group, dead_letters_topic, notices_topic, tuples_topic

_RECORDS: Final = 200_000
_PACKS: Final = 1_000

_SPLITTING: Final = ("minpartitions", "maxrecordsperpartition")
"""Options with which several tasks read a partition: the acks of its inputs have to have one order."""


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


def topics_of(manifest: Manifest, component: Component) -> dict[str, int]:
    """The topics that a component needs, beside the source of a spout, and how many partitions they have."""
    topics = {}
    if isinstance(component, BoltManifest):
        topics[tuples_topic(manifest.topology, component.name)] = component.tasks
    elif manifest.acking:
        topics[notices_topic(manifest.topology, component.name)] = component.tasks
    for receiver in manifest.bolts:
        if any(subscription.source == component.name for subscription in receiver.subscriptions):
            topics[tuples_topic(manifest.topology, receiver.name)] = receiver.tasks
    if manifest.acking:
        topics[acks_topic(manifest.topology)] = manifest.ack_partitions
    return {**topics, dead_letters_topic(manifest.topology): 1}


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
    manifest = manifest_of(topology)
    found = component_of(manifest, name)
    if not isinstance(found, BoltManifest):
        raise ComponentRefusedError(f"{name!r} is a spout of topology {manifest.topology!r}: name a bolt")
    check_session(spark)
    _check_options(name, options or {})
    batch = BoltBatch(manifest, found, transform, _idempotent(sink_options(kafka)))
    batch.check(spark.createDataFrame([], batch.row_type))
    check_topics(kafka, topics_of(manifest, found))
    claim_checkpoint(spark, checkpoint, {"topology": manifest.topology, "component": name, "kind": "bolt"})
    tally = BoltTally(found)

    def run(records: DataFrame, batch_id: int, session: bytes) -> BatchResult:
        written = batch.run(records, batch_id, session)
        tally.add(written)
        return written

    limit = _default_rows(manifest, found) if max_rows is None else max_rows
    query_name = f"{manifest.topology}.{name}"
    runner = BatchRunner(query_name, run)
    read = {
        **source_options(kafka),
        "subscribe": tuples_topic(manifest.topology, name),
        "includeHeaders": "true",
        # Bolts of the SDK may write in transactions, and do again what they abort: nobody's settings change this.
        "kafka.isolation.level": "read_committed",
        "startingOffsets": "earliest",
        # Offsets out of range were not acked, so their trees are replayed; the query goes on.
        "failOnDataLoss": "false",
        **({"maxOffsetsPerTrigger": str(limit)} if limit else {}),
        **(options or {}),
    }
    writer = (
        spark.readStream.format("kafka")
        .options(**read)
        .load()
        .writeStream.queryName(query_name)
        .option("checkpointLocation", checkpoint)
    )
    if trigger:
        writer = writer.trigger(**trigger)
    inbox = InboxOffsets(kafka, component_group(manifest.topology, name))
    runner.listener.on_end_offsets = inbox.reached
    query = runner.start(writer, spark)
    stats = driver_stats(kafka, manifest.topology, name, tally.stats, lambda: query.isActive, inbox)
    stats.start()
    return RunningQuery(query, runner, stats)


def _default_rows(manifest: Manifest, bolt: BoltManifest) -> int:
    codecs = {manifest.stream(each.source, each.stream).codec for each in bolt.subscriptions}
    return _PACKS if "arrow" in codecs else _RECORDS


def _check_options(name: str, options: Mapping[str, str]) -> None:
    for option in options:
        if option.lower() in _SPLITTING:
            raise ComponentRefusedError(
                f"bolt {name!r} has option {option}: each partition of its inbox is read by one task, so leave it out, "
                "and give the bolt more tasks"
            )


def _idempotent(kafka: Mapping[str, str]) -> dict[str, str]:
    """A batch of entries that the client sent twice would cancel, and the ack of their input come too early.

    With several requests under way a client that gives one up begins a new epoch, and sends the others once more.
    """
    once = {"kafka.enable.idempotence": "true", "kafka.max.in.flight.requests.per.connection": "1"}
    return {**kafka, "kafka.acks": "all", **once}

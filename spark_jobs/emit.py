"""Any Spark streaming job as the source of a topology: one call in its `foreachBatch`."""

import time
import uuid
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from spark_jobs.ack_batches import AckLanes
from spark_jobs.bolt import HasManifest, component_of, manifest_of
from spark_jobs.deliveries import ID, deliveries_of, edges_of, records_of_roots
from spark_jobs.errors import ComponentRefusedError
from spark_jobs.ids import seed_of
from spark_jobs.kafka_options import check_topics, sink_options
from spark_jobs.micro_batch import Written
from spark_jobs.outputs import Outputs, outputs_of
from spark_jobs.payloads import FIELD, encoded, problem_of
from spark_jobs.plans import fixed_plans, kept, write
from spark_jobs.results import check_fields
from spark_jobs.running_query import query_id_of
from tuple_tree.manifest import Manifest, SpoutManifest
from tuple_tree.messages import SpoutTask
from tuple_tree.names import acks_topic, notices_topic, tuples_topic
from tuple_tree.streams import DEFAULT_STREAM

_opened: Final[set[tuple[str, str, bytes]]] = set()
"""Topology, spout and session of what this process has checked and opened."""


def emit(
    batch_df: DataFrame,
    batch_id: int,
    topology: Manifest | HasManifest,
    spout: str,
    *,
    kafka: Mapping[str, Any],
    stream: str = DEFAULT_STREAM,
    lanes: int = 1,
) -> Written:
    """Emits the rows of a micro-batch as tuples of a spout, each the root of a tree.

        lines.writeStream.foreachBatch(
            lambda batch, number: spark_jobs.emit(batch, number, topology, "lines", kafka=kafka)
        ).option("checkpointLocation", …).start()

    Roots and edges are a function of the query (whose id lives in its checkpoint), the batch id, and each row's
    content; equal rows of a batch are numbered. So a micro-batch that is run again emits the same trees once more, and
    their inits are recognised as repeats. That holds for rows that come out the same; rows that another run makes
    differently, with the time or with random values, are emitted without an init, so nobody is told what becomes of
    them.

    The outcomes are notices for task 0 of the spout. Nobody replays: who needs that keeps the rows until they are
    acked, or uses a spout.

    Args:
        batch_df: as Spark hands it to the function given to `foreachBatch`; with the fields of the stream.
        batch_id: likewise.
        topology: as built, or its manifest.
        spout: an external spout of it.
        kafka: librdkafka properties; at least `bootstrap.servers`.
        stream: of the spout.
        lanes: how many Spark tasks write to each partition of the ack log; never changed for a checkpoint.

    Returns:
        What was written.

    Raises:
        ComponentRefusedError: if the topology has no such spout or stream.
        TransformRefusedError: if the rows lack a field, or have another type for it.
        TopicsRefusedError: if topics are not there, or not as they have to be.
        SparkJobError: if this is no micro-batch of a streaming query.
    """
    began = time.monotonic()
    manifest = manifest_of(topology)
    found = component_of(manifest, spout)
    if not isinstance(found, SpoutManifest):
        raise ComponentRefusedError(f"{spout!r} is a bolt of topology {manifest.topology!r}: name a spout")
    spark = batch_df.sparkSession
    outputs = _only(outputs_of(spark, manifest, spout), stream)
    schema, routes = outputs.streams[0]
    check_fields(batch_df.schema, schema.stream.name, schema.types, f"the micro-batch for {spout!r}")
    query_id = query_id_of(batch_df)
    packing = AckLanes(manifest, spout, uuid.UUID(query_id).bytes, lanes)
    _open(spark, packing, found, kafka)

    fields = [F.col(FIELD + name) for name in schema.names]
    problem = problem_of(fields, schema)
    payload = F.when(problem.isNull(), encoded(fields, schema)).otherwise(F.raise_error(problem).cast("binary"))
    number = F.row_number().over(Window.partitionBy("content").orderBy(F.lit(0)))
    identity = F.xxhash64(seed_of(query_id, spout, stream), F.lit(batch_id).cast("bigint"), "content", number)
    rows = (
        batch_df.select(
            *[F.col(f"`{each.name}`").cast(each.dataType).alias(FIELD + each.name) for each in schema.fields]
        )
        .withColumn("value", payload)
        .withColumn("content", F.xxhash64("value"))
        .withColumn(ID, identity)
        .select(ID, "value", deliveries_of(outputs, schema, routes).alias("to"))
    )
    with kept(rows):
        with fixed_plans(spark):
            counts = rows.agg(
                F.count("*").alias("rows"), F.coalesce(F.sum(F.size("to")), F.lit(0)).alias("tuples")
            ).head()
        assert counts is not None  # noqa: S101 - for the type checker; an aggregation always has a row
        written = records_of_roots(rows, outputs, F.col(ID))
        if manifest.acking:
            task = SpoutTask(notices_topic(manifest.topology, spout), 0, found.timeout_ms)
            entries = rows.select(F.col(ID).alias("root"), edges_of(F.col("to")).alias("val"))
            written = written.unionByName(packing.inits(batch_id, entries, counts["rows"], task))
        write(written, sink_options(kafka))
    seconds = time.monotonic() - began
    return Written(**counts.asDict(), acks=0, failed=0, dead=0, seconds=seconds, emitted=counts["rows"])


def _only(outputs: Outputs, stream: str) -> Outputs:
    chosen = tuple(each for each in outputs.streams if each[0].stream.name == stream)
    if not chosen:
        declared = ", ".join(schema.stream.name for schema, _ in outputs.streams) or "none"
        raise ComponentRefusedError(f"spout {outputs.component!r} has no stream {stream!r}: it declares {declared}")
    return Outputs(outputs.manifest, outputs.component, chosen)


def _open(spark: SparkSession, packing: AckLanes, spout: SpoutManifest, kafka: Mapping[str, Any]) -> None:
    manifest = packing.manifest
    key = (manifest.topology, spout.name, packing.session)
    if key in _opened:
        return
    topics = {
        tuples_topic(manifest.topology, bolt.name): bolt.tasks
        for bolt in manifest.bolts
        if any(subscription.source == spout.name for subscription in bolt.subscriptions)
    }
    if manifest.acking:
        topics[acks_topic(manifest.topology)] = manifest.ack_partitions
        topics[notices_topic(manifest.topology, spout.name)] = spout.tasks
    check_topics(kafka, topics)
    if manifest.acking:
        write(packing.openings(spark), sink_options(kafka))
    _opened.add(key)

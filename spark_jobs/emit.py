"""Any Spark streaming job as the source of a topology: one call in its `foreachBatch`."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np
from pyspark.sql import DataFrame

from spark_jobs.components import HasManifest, component_of, topics_of
from spark_jobs.driver_stats import BatchResult
from spark_jobs.entries import KafkaSender, Send
from spark_jobs.errors import ComponentRefusedError, SparkJobError
from spark_jobs.kafka_options import check_topics, executor_settings
from spark_jobs.packages import check_session
from spark_jobs.packing import Packing
from spark_jobs.running_query import query_id_of
from spark_jobs.tasks import run_tasks
from spark_jobs.transform import stream_columns
from tuple_tree.components import SpoutManifest
from tuple_tree.ids import random_column
from tuple_tree.manifest import Manifest
from tuple_tree.streams import DEFAULT_STREAM

_checked: Final[set[tuple[str, str, str]]] = set()
"""Topology, spout and query of those whose topics this process has checked."""


def emit_rows(manifest: Manifest, spout: SpoutManifest, send: Send, batches: Iterable[Any]) -> Counter[str]:
    """Sends rows with the fields of the only stream, each as the root of a tree; returns the counts of a `Packing`."""
    packing = Packing(manifest, spout, send)

    def add(batch: Any) -> None:
        unfit = packing.begin(batch, random_column(batch.num_rows), np.arange(batch.num_rows))
        for message in unfit.values():
            raise SparkJobError(f"a row cannot be emitted: {message}; correct it, or leave it out")

    return packing.run(batches, add)


def emit(
    batch_df: DataFrame,
    batch_id: int,
    topology: Manifest | HasManifest,
    spout: str,
    *,
    kafka: Mapping[str, Any],
    stream: str = DEFAULT_STREAM,
) -> BatchResult:
    """Emits the rows of a micro-batch as tuples of a spout, each the root of a tree.

        lines.writeStream.foreachBatch(
            lambda batch, number: spark_jobs.emit(batch, number, topology, "lines", kafka=kafka)
        ).option("checkpointLocation", …).start()

    Roots are random. A micro-batch that is run again, and a task that is tried again, emit new trees; those of the
    first time have outcomes as well.

    The outcomes are notices for task 0 of the spout. Nothing is replayed: where that is needed, keep the rows until
    they are acked, or use a spout.

    Args:
        batch_df: as Spark hands it to the function given to `foreachBatch`; with the fields of the stream.
        batch_id: likewise.
        topology: as built, or its manifest.
        spout: an external spout of it.
        kafka: librdkafka properties; at least `bootstrap.servers`.
        stream: of the spout.

    Returns:
        What was written.

    Raises:
        ComponentRefusedError: if the topology has no such spout or stream.
        TransformRefusedError: if the rows lack a field, or have another type for it.
        TopicsRefusedError: if topics are not there, or not as they have to be.
        SparkJobError: if this is not a micro-batch of a streaming query, or the session runs tasks speculatively.
    """
    began = time.monotonic()
    manifest, component = component_of(topology, spout, SpoutManifest)
    streams = {each.name: each for each in component.streams}
    if stream not in streams:
        declared = ", ".join(streams) or "none"
        raise ComponentRefusedError(f"spout {spout!r} has no stream {stream!r}: it declares {declared}")
    emitted = streams[stream]
    of_stream = component.model_copy(update={"streams": (emitted,)})
    chosen = stream_columns(batch_df, emitted, f"the micro-batch for {spout!r}")
    check_session(batch_df.sparkSession)
    key = (manifest.topology, spout, query_id_of(batch_df))
    if key not in _checked:
        check_topics(kafka, topics_of(manifest, component))
        _checked.add(key)
    written = Counter[str]()
    task = partial(emit_rows, manifest, of_stream, KafkaSender(executor_settings(kafka)))
    for counts in run_tasks(chosen, task, f"{manifest.topology}.{spout}, micro-batch {batch_id}: tuples"):
        written.update(counts)
    return BatchResult(
        rows=written["emitted"],
        tuples=written["transferred"],
        acks=0,
        failed=0,
        dead=written["dead"],
        seconds=time.monotonic() - began,
        emitted=written["emitted"],
    )

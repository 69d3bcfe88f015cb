"""Spouts and bolts as PySpark Structured Streaming jobs.

    from pyspark.sql import functions as F

    def transform(rows):
        return rows.select(F.explode(F.split("line", " ")).alias("word"), "_tracking")

    spark = spark_jobs.session("split", "local[*]")
    query = spark_jobs.bolt(spark, topology, "split", transform, kafka={"bootstrap.servers": …}, checkpoint=…)
    query.wait()

Rooms, from what users call to what it is made of:

- `packages`: the session and what it needs; `bolt`: a bolt as a query; `tracking`: the column that `transform` keeps;
  `emit`: a streaming job as a source; `submit` and `main`: a bolt under spark-submit.
- `running_query`: progress and stopping; `checkpoint`: whom a checkpoint belongs to; `kafka_options`: settings.
- `micro_batch`: everything that a micro-batch writes, in one write. `inbox`: records in; `outputs`: rows out;
  `ack_batches`: what the ackers are told.
- `ids`, `anchors`, `payloads`, `routing`: the wire contract as Spark expressions, which take and give columns.
- `errors`: everything that is raised, drawn as a tree.
"""

from spark_jobs.bolt import bolt
from spark_jobs.emit import emit
from spark_jobs.errors import (
    CheckpointRefusedError,
    ComponentRefusedError,
    SparkJobError,
    SubmitError,
    TopicsRefusedError,
    TransformRefusedError,
)
from spark_jobs.micro_batch import Transform, Written
from spark_jobs.packages import packages, required_settings, session
from spark_jobs.running_query import RunningQuery
from spark_jobs.tracking import mark_failed, merge_tracking

__all__ = [
    "CheckpointRefusedError",
    "ComponentRefusedError",
    "RunningQuery",
    "SparkJobError",
    "SubmitError",
    "TopicsRefusedError",
    "Transform",
    "TransformRefusedError",
    "Written",
    "bolt",
    "emit",
    "mark_failed",
    "merge_tracking",
    "packages",
    "required_settings",
    "session",
]

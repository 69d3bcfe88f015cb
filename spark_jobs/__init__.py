"""Spouts and bolts as PySpark Structured Streaming jobs.

    from pyspark.sql import functions as F

    def transform(rows):
        return rows.select(F.explode(F.split("line", " ")).alias("word"), "_tracking")

    spark = spark_jobs.session("split", "local[*]")
    query = spark_jobs.bolt(spark, topology, "split", transform, kafka={"bootstrap.servers": …}, checkpoint=…)
    query.wait()

    running = spark_jobs.spout(spark, topology, "lines", "a-topic", kafka={"bootstrap.servers": …}, checkpoint=…)

- `packages`: the session and what it needs; `bolts`, `spouts`, `emit`: what users call; `transform`: what a bolt's
  function receives and returns; `components`: what a topology gives a job to run.
- `submit` and `main`: a component under spark-submit, from both sides.
- `running_query`: progress and stopping; `checkpoint`: its owner and its offsets; `kafka_options`:
  settings; `driver_stats`: what a driver counts and publishes.
- Of a bolt: `bolts`: its micro-batches; `inbox`: records into rows, and their acks.
- Of both: `tasks`: what tasks send and report; `packing`: rows into packs; `entries`: the ack log and dead letters;
  `frames`: streams as columns.
- Of a spout: `delivering`: messages into packs; `outcomes`: which messages are open; `message_table`: their columns;
  `spout_loop`: reads notices, commits, and delivers again what failed; `spout_offsets`: its offsets in Kafka;
  `source_reader`: messages by position; `outcome_writer`: writes the outcomes of messages that have `ended`.
- `python_worker`, `python_daemon`, `class_archive`: shorter starts of tasks and drivers. `errors`: the hierarchy.
"""

from spark_jobs.bolts import bolt
from spark_jobs.components import Source, SourceFunction
from spark_jobs.driver_stats import BatchResult
from spark_jobs.emit import emit
from spark_jobs.errors import (
    CheckpointRefusedError,
    ComponentRefusedError,
    SparkJobError,
    SubmitError,
    TopicsRefusedError,
    TransformRefusedError,
)
from spark_jobs.packages import packages, required_settings, session
from spark_jobs.python_worker import prepare_worker
from spark_jobs.running_query import RunningQuery
from spark_jobs.spouts import RunningSpout, spout
from spark_jobs.transform import Sink, Transform, mark_failed, merge_tracking

__all__ = [
    "BatchResult",
    "CheckpointRefusedError",
    "ComponentRefusedError",
    "RunningQuery",
    "RunningSpout",
    "Sink",
    "Source",
    "SourceFunction",
    "SparkJobError",
    "SubmitError",
    "TopicsRefusedError",
    "Transform",
    "TransformRefusedError",
    "bolt",
    "emit",
    "mark_failed",
    "merge_tracking",
    "packages",
    "required_settings",
    "session",
    "spout",
]

# Every worker of an executor that runs one of our functions imports this.
prepare_worker()

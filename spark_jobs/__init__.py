"""Spouts and bolts as PySpark Structured Streaming jobs.

    from pyspark.sql import functions as F

    def transform(rows):
        return rows.select(F.explode(F.split("line", " ")).alias("word"), "_tracking")

    spark = spark_jobs.session("split", "local[*]")
    query = spark_jobs.bolt(spark, topology, "split", transform, kafka={"bootstrap.servers": …}, checkpoint=…)
    query.wait()

    running = spark_jobs.spout(spark, topology, "lines", "a-topic", kafka={"bootstrap.servers": …}, checkpoint=…)

- `packages`: the session and what it needs; `bolt`, `spout`, `emit`: what users call; `tracking`: the column that
  `transform` keeps; `components`: what a topology gives a job to run.
- `submit` and `main`: a component under spark-submit, from both sides.
- `running_query`: progress and stopping; `checkpoint`: its owner and its offsets; `kafka_options`, `kafka_security`:
  settings; `counts`, `driver_stats`: what a driver publishes.
- Of a bolt: `micro_batch`: its two writes; `records_in`: records into rows; `results`: checks of what
  `transform` returned; `input_acks`: acks of the inputs.
- Of both: `packing`: rows into packs; `entries`: the ack log and dead letters; `frames`: streams as columns.
- Of a spout: `spout_batch`: its write; `delivering`: messages into packs; `outcomes`: which trees are open;
  `spout_loop`: reads notices, commits, and delivers again what failed; `spout_offsets`: its committed offsets;
  `spout_landing`: a source that cannot be read by position.
- `python_worker`: what makes tasks begin sooner. `errors`: the hierarchy.
"""

from spark_jobs.bolt import bolt
from spark_jobs.components import Source, SourceFunction
from spark_jobs.counts import BatchResult
from spark_jobs.emit import emit
from spark_jobs.errors import (
    CheckpointRefusedError,
    ComponentRefusedError,
    SparkJobError,
    SubmitError,
    TopicsRefusedError,
    TransformRefusedError,
)
from spark_jobs.micro_batch import Sink, Transform
from spark_jobs.packages import packages, required_settings, session
from spark_jobs.python_worker import prepare_worker
from spark_jobs.running_query import RunningQuery
from spark_jobs.spout import RunningSpout, spout
from spark_jobs.tracking import mark_failed, merge_tracking

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

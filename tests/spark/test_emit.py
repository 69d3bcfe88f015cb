"""A Spark streaming job as the source of a topology."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import spark_jobs
from tests.kafka.sdk_rig import headers_of
from tests.spark.rig import Stage, topology_name
from tests.spark.topologies import manifest_of
from tuple_tree.anchors import unpack_anchors

LINES = ["one", "two", "one", "three", "one"]


@pytest.fixture
def stage(bootstrap_servers: str, tmp_path: Path) -> Stage:
    return Stage(bootstrap_servers, manifest_of(topology_name(), ack_partitions=3), tmp_path)


def run_job(spark: SparkSession, stage: Stage, source: Path, **settings: Any) -> list[spark_jobs.Written]:
    """A streaming job that reads text files; it emits the same rows in whatever order."""
    written = []

    def each(batch: DataFrame, number: int) -> None:
        rows = batch.select(F.col("value").alias("line")).orderBy(F.rand())
        written.append(spark_jobs.emit(rows, number, stage.manifest, "lines", kafka=stage.kafka, **settings))

    stream = spark.readStream.text(str(source)).writeStream.foreachBatch(each)
    query = stream.option("checkpointLocation", str(stage.checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination(120)
    return written


def roots_of(stage: Stage) -> Counter[int]:
    return Counter(root for record in stage.received("split") for root in unpack_anchors(headers_of(record)["anchors"]))


def test_rows_become_trees_and_the_same_ones_again(spark: SparkSession, stage: Stage, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "lines.txt").write_text("\n".join(LINES))
    (written,) = run_job(spark, stage, source)
    assert (written.rows, written.tuples) == (5, 5)
    assert Counter(line for (line,) in stage.values("split", "lines")) == Counter(LINES)
    roots = roots_of(stage)
    assert len(roots) == 5
    assert set(roots.values()) == {1}
    assert stage.outcome().open == 5

    stage.ack_received("split")
    assert stage.outcome().acked == set(roots)

    stage.forget_commit()
    run_job(spark, stage, source)
    assert roots_of(stage) == dict.fromkeys(roots, 2)
    outcome = stage.outcome()
    assert outcome.acked == set(roots)
    assert outcome.open == 0
    assert outcome.counters.inits == 5
    assert outcome.counters.repeated_batches > 0


def test_refusals(spark: SparkSession, stage: Stage) -> None:
    rows = spark.sql("select 'x' line")
    with pytest.raises(spark_jobs.ComponentRefusedError, match="'split' is a bolt"):
        spark_jobs.emit(rows, 0, stage.manifest, "split", kafka=stage.kafka)
    with pytest.raises(spark_jobs.ComponentRefusedError, match="has no stream 'other': it declares default"):
        spark_jobs.emit(rows, 0, stage.manifest, "lines", kafka=stage.kafka, stream="other")
    with pytest.raises(spark_jobs.TransformRefusedError, match="'line' of stream 'default' not at all"):
        spark_jobs.emit(spark.sql("select 1 n"), 0, stage.manifest, "lines", kafka=stage.kafka)
    with pytest.raises(spark_jobs.SparkJobError, match="no micro-batch"):
        spark_jobs.emit(rows, 0, stage.manifest, "lines", kafka=stage.kafka)

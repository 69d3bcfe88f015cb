"""What is refused before a stream starts, and what the message says."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import spark_jobs
from tests.spark.rig import Stage, topology_name
from tests.spark.test_bolt import explode
from tests.spark.topologies import manifest_of, subscription
from tuple_tree.manifest import BoltManifest, Manifest, SpoutManifest
from tuple_tree.streams import declare


@pytest.fixture(scope="module")
def stage(bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return Stage(bootstrap_servers, manifest_of(topology_name()), tmp_path_factory.mktemp("stage"))


@pytest.mark.parametrize(
    ("name", "says"), [("nobody", "has no component 'nobody': it has lines, split, count"), ("lines", "is a spout")]
)
def test_components(spark: SparkSession, stage: Stage, tmp_path: Path, name: str, says: str) -> None:
    with pytest.raises(spark_jobs.ComponentRefusedError, match=says):
        spark_jobs.bolt(
            spark, stage.manifest, name, explode, kafka=stage.kafka, checkpoint=str(tmp_path / "checkpoint")
        )


@pytest.mark.parametrize(
    ("transform", "says"),
    [
        (lambda rows: rows.select(F.col("line").alias("word")), "without _tracking"),
        (lambda rows: rows.select(F.col("line").alias("wrod"), "_tracking"), "'word' of stream 'default' not at all"),
        (lambda rows: rows.select(F.length("line").alias("word"), "_tracking"), "'word' .* as int: .* declares string"),
        (lambda rows: rows.select(F.col("line").alias("word"), F.lit(1).alias("_tracking")), "a int as _tracking"),
        (lambda rows: rows.select("_tracking", F.col("line").alias("word"), "line").collect(), "returns a list"),
        (
            lambda rows: rows.select("_tracking", F.col("line").alias("word"), F.lit(1).alias("_fail")),
            "_fail as int: it must be text",
        ),
    ],
)
def test_transforms(spark: SparkSession, stage: Stage, transform: Any, says: str) -> None:
    with pytest.raises(spark_jobs.TransformRefusedError, match=says):
        stage.start(spark, transform)
    assert not stage.checkpoint.exists()


def test_several_streams_without_saying_which(spark: SparkSession, stage: Stage, tmp_path: Path) -> None:
    two = (declare("word"), declare("word", name="other"))
    manifest = Manifest.of(
        topology="two",
        max_tree_age_ms=300_000,
        components=(
            SpoutManifest(name="lines", streams=(declare("line"),)),
            BoltManifest(name="split", streams=two, subscriptions=(subscription("lines"),)),
        ),
    )
    with pytest.raises(spark_jobs.TransformRefusedError, match="streams default, other: say in column _stream"):
        spark_jobs.bolt(spark, manifest, "split", explode, kafka=stage.kafka, checkpoint=str(tmp_path))


def test_sources_with_one_field_of_two_types(spark: SparkSession, stage: Stage, tmp_path: Path) -> None:
    manifest = Manifest.of(
        topology="two",
        max_tree_age_ms=300_000,
        components=(
            SpoutManifest(name="a", streams=(declare("n"),)),
            SpoutManifest(name="b", streams=(declare({"n": int}),)),
            BoltManifest(name="split", subscriptions=(subscription("a"), subscription("b"))),
        ),
    )
    with pytest.raises(spark_jobs.ComponentRefusedError, match="'n' as string, and from b/default as bigint"):
        spark_jobs.bolt(spark, manifest, "split", explode, kafka=stage.kafka, checkpoint=str(tmp_path))


def test_topics(spark: SparkSession, stage: Stage, tmp_path: Path) -> None:
    checkpoint = str(tmp_path / "checkpoint")
    with pytest.raises(spark_jobs.TopicsRefusedError, match=r"missing\.tuples\.split does not exist: acker topics"):
        spark_jobs.bolt(spark, manifest_of("missing"), "split", explode, kafka=stage.kafka, checkpoint=checkpoint)
    wider = manifest_of(stage.manifest.topology, counts={"count": (5, "fields")})
    with pytest.raises(spark_jobs.TopicsRefusedError, match="has 2 partitions and the topology says 5"):
        spark_jobs.bolt(spark, wider, "split", explode, kafka=stage.kafka, checkpoint=checkpoint)
    with pytest.raises(spark_jobs.SparkJobError, match=r"no bootstrap\.servers: pass it"):
        spark_jobs.bolt(spark, stage.manifest, "split", explode, kafka={}, checkpoint=checkpoint)


def test_checkpoints(spark: SparkSession, bootstrap_servers: str, stage: Stage, tmp_path: Path) -> None:
    stage.send([("a",)])
    stage.drain(spark, explode)
    stage.drain(spark, explode)
    other = Stage(bootstrap_servers, manifest_of(topology_name()), tmp_path)
    other.checkpoint = stage.checkpoint
    with pytest.raises(spark_jobs.CheckpointRefusedError, match=f"belongs to .*topology {stage.manifest.topology}"):
        other.start(spark, explode)
    with pytest.raises(spark_jobs.CheckpointRefusedError, match="lanes 1"):
        stage.start(spark, explode, lanes=2)

    foreign = tmp_path / "foreign"
    query = spark.readStream.format("rate").load().writeStream.format("noop")
    query.option("checkpointLocation", str(foreign)).start().stop()
    other.checkpoint = foreign
    with pytest.raises(spark_jobs.CheckpointRefusedError, match="made by another Spark query"):
        other.start(spark, explode)


def test_a_topology_of_the_builder_is_taken(spark: SparkSession, stage: Stage, tmp_path: Path) -> None:
    class Built:
        manifest = stage.manifest

    def empty(rows: DataFrame) -> DataFrame:
        return rows.select("_tracking")

    with pytest.raises(spark_jobs.TransformRefusedError):
        spark_jobs.bolt(spark, Built(), "split", empty, kafka=stage.kafka, checkpoint=str(tmp_path))

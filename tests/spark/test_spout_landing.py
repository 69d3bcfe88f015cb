"""Sources that are no topic: their rows land in one, and then are delivered until they are acked."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import spark_jobs
from spark_jobs.spout import spout
from spark_jobs.spout_landing import replay_topic
from tests.kafka.sdk_rig import value
from tests.spark.test_spout_stage import PlayedBolt, SpoutStage, spout_manifest
from tests.waiting import eventually
from tuple_tree.ids import position_of
from tuple_tree.streams import declare


def test_files_are_landed_and_delivered_until_acked(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path
) -> None:
    stage = SpoutStage(bootstrap_servers, tmp_path)
    files = tmp_path / "files"
    files.mkdir()
    (files / "one.txt").write_text("".join(f"row {number}\n" for number in range(100)))
    rows = spark.readStream.text(str(files)).select(F.col("value").alias("line"))

    def judge(root: int, payload: bytes) -> str | None:
        return "not yet" if payload == b"row 42" and not position_of(root).attempt else None

    with stage, PlayedBolt(stage, judge) as bolt:
        for count in (100, 150):
            running = spout(
                spark,
                stage.manifest,
                "lines",
                rows,
                kafka=stage.kafka,
                checkpoint=str(stage.checkpoint),
                trigger={"availableNow": True},
            )
            assert running.wait(120)
            assert sorted(set(bolt.values)) == sorted(f"row {number}".encode() for number in range(count))
            assert len(bolt.values) == count + 1
            (files / "two.txt").write_text("".join(f"row {number}\n" for number in range(100, 150)))
    assert len(stage.cluster.records(replay_topic(stage.manifest.topology, "lines"))) == 150


def test_fields_of_all_types_and_rows_without_payload(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path
) -> None:
    stream = declare({"n": int, "word": str}, codec="json")
    stage = SpoutStage(bootstrap_servers, tmp_path, spout_manifest(stream=stream, guarantee="at_most_once"))
    files = tmp_path / "files"
    files.mkdir()
    (files / "one.json").write_text('{"n": 1, "word": "a"}\n{"n": 2}\n')
    rows = spark.readStream.schema("n bigint, word string").json(str(files))
    running = spout(
        spark,
        stage.manifest,
        "lines",
        rows,
        kafka=stage.kafka,
        checkpoint=str(stage.checkpoint),
        trigger={"once": True},
    )
    assert running.wait(60)
    assert [value(record) for record in stage.received()] == [b'{"n":1,"word":"a"}']
    assert len(stage.dead_letters()) == 1


def test_a_landing_that_fails_ends_the_spout(spark: SparkSession, bootstrap_servers: str, tmp_path: Path) -> None:
    stage = SpoutStage(bootstrap_servers, tmp_path)
    rate = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
    line = F.when(F.col("value") > 20, F.raise_error(F.lit("out of rows"))).otherwise(F.col("value").cast("string"))
    running = spout(
        spark,
        stage.manifest,
        "lines",
        rate.select(line.cast("string").alias("line")),
        kafka=stage.kafka,
        checkpoint=str(stage.checkpoint),
    )
    with pytest.raises(Exception, match="out of rows"):
        eventually(lambda: running.wait(1), "the end of the spout")


def test_what_is_refused(spark: SparkSession, bootstrap_servers: str, tmp_path: Path) -> None:
    stage = SpoutStage(bootstrap_servers, tmp_path)
    settings = {"kafka": stage.kafka, "checkpoint": str(stage.checkpoint)}
    rate = spark.readStream.format("rate").load()
    line = rate.select(F.col("value").cast("string").alias("line"))
    with pytest.raises(
        spark_jobs.TransformRefusedError, match="source of spout 'lines' returns columns timestamp, value"
    ):
        spout(spark, stage.manifest, "lines", rate, **settings)  # type: ignore[arg-type]
    with pytest.raises(spark_jobs.ComponentRefusedError, match="are for a topic: select them in the DataFrame"):
        spout(spark, stage.manifest, "lines", line, fields={}, **settings)  # type: ignore[arg-type]
    with pytest.raises(spark_jobs.ComponentRefusedError, match=r"does not stream: make it with spark\.readStream"):
        spout(spark, stage.manifest, "lines", spark.range(3), **settings)  # type: ignore[arg-type]

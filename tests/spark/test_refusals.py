"""Errors before a stream starts, and their messages."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import spark_jobs
from spark_jobs import (
    CheckpointRefusedError,
    ComponentRefusedError,
    Source,
    SparkJobError,
    TopicsRefusedError,
    TransformRefusedError,
    kafka_options,
)
from tests.manifests import bolt, manifest
from tests.spark.rig import Stage, topology_name
from tests.spark.spout_rig import SpoutStage, spout_manifest
from tests.spark.test_bolt import explode
from tests.spark.topologies import LINE, WORD, manifest_of
from tuple_tree.components import OutcomesManifest, SpoutManifest
from tuple_tree.manifest import Manifest
from tuple_tree.names import component_group
from tuple_tree.streams import declare

Refused = Callable[..., None]


def refuses(start: Callable[..., Any], **defaults: Any) -> Refused:
    """Checks that a call is refused with an error, and with a message that matches."""

    def check(error: type[Exception], expected: str, *arguments: Any, **settings: Any) -> None:
        with pytest.raises(error, match=expected):
            start(*arguments, **{**defaults, **settings})

    return check


def two_sources(*streams: Any, sources: dict[str, Any] | None = None) -> Manifest:
    """Sources → split, with these streams."""
    spouts = sources or {"lines": LINE}
    components = (SpoutManifest(name=name, streams=(stream,)) for name, stream in spouts.items())
    return manifest(*components, bolt("split", *spouts, streams=streams), topology="two")


def test_bolts(spark: SparkSession, bootstrap_servers: str, tmp_path: Path) -> None:
    stage = Stage(bootstrap_servers, manifest_of(topology_name()), tmp_path)
    refused = refuses(spark_jobs.bolt, kafka=stage.kafka, checkpoint=str(stage.checkpoint))
    mine = stage.manifest

    class Built:
        manifest = mine

    refused(
        ComponentRefusedError, "has no component 'missing': it has lines, split, count", spark, mine, "missing", explode
    )
    refused(ComponentRefusedError, "is a spout", spark, mine, "lines", explode)
    word = F.col("line").alias("word")
    for transform, expected in (
        (lambda rows: rows.select(word), "without _tracking"),
        (lambda rows: rows.select(F.col("line").alias("wrod"), "_tracking"), "'word' of stream 'default' not at all"),
        (lambda rows: rows.select(F.length("line").alias("word"), "_tracking"), "'word' .* as int: .* declares string"),
        (lambda rows: rows.select(word, F.lit(1).alias("_tracking")), "a int as _tracking"),
        (lambda rows: rows.select("_tracking", word).collect(), "returns a list"),
        (
            lambda rows: rows.select("_tracking", word).withWatermark("line", "1 minute"),
            "calls withWatermark: its rows",
        ),
        (lambda rows: rows.select("_tracking", word, F.lit(1).alias("_fail")), "_fail as int: it must be text"),
    ):
        refused(TransformRefusedError, expected, spark, Built(), "split", transform)
    two_streams = two_sources(WORD, declare("word", name="other", codec="avro"))
    refused(
        TransformRefusedError, "streams default, other: say in column _stream", spark, two_streams, "split", explode
    )
    two_types = two_sources(WORD, sources={"a": declare("n", codec="avro"), "b": declare({"n": int}, codec="json")})
    refused(ComponentRefusedError, "'n' as string, and from b/default as bigint", spark, two_types, "split", explode)
    refused(
        TopicsRefusedError, r"missing\.tuples\.split does not exist: acker topics", spark, manifest_of("missing"),
        "split", explode,
    )  # fmt: skip
    wider = manifest_of(mine.topology, counts={"count": (5, "fields")})
    refused(TopicsRefusedError, "has 2 partitions and the topology has 5", spark, wider, "split", explode)
    refused(SparkJobError, r"no bootstrap\.servers: pass it", spark, mine, "split", explode, kafka={})
    assert not stage.checkpoint.exists()


def test_spouts(spark: SparkSession, bootstrap_servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Now every broker has the metadata of the topics.
    monkeypatch.setattr(kafka_options, "_KNOWN_SECONDS", 0)
    stage = SpoutStage(bootstrap_servers, tmp_path)
    mine, source = stage.manifest, stage.source
    refused = refuses(spark_jobs.spout, kafka=stage.kafka, checkpoint=str(stage.checkpoint))
    refused(ComponentRefusedError, "no component 'missing': it has other, lines, count", spark, mine, "missing", source)
    refused(ComponentRefusedError, "'count' is a bolt of topology .*: name a spout", spark, mine, "count", source)
    for settings, expected in (
        ({"retry_limit": 64}, "retry_limit of spout 'lines' is 64: .* below 64"),
        ({"starting_offsets": "first"}, "say earliest or latest"),
        ({"codec": "xml"}, "codec of spout 'lines' is 'xml': say json or avro"),
    ):
        refused(ComponentRefusedError, expected, spark, mine, "lines", Source(source, **settings))
    refused(ComponentRefusedError, "max_rows of spout 'lines' is 0", spark, mine, "lines", source, max_rows=0)
    refused(TopicsRefusedError, "source topic missing does not exist: create it", spark, mine, "lines", "missing")
    without = Source(source, fields={})
    refused(TransformRefusedError, "'line' of stream 'default' not at all", spark, mine, "lines", without)
    rate = spark.readStream.format("rate").load()
    line = rate.select(F.col("value").cast("string").alias("line"))
    refused(TransformRefusedError, "spout 'lines' returns columns timestamp, value", spark, mine, "lines", rate)
    refused(ComponentRefusedError, "are for a topic: select the fields", spark, mine, "lines", Source(line, fields={}))
    refused(ComponentRefusedError, r"does not stream: .*readStream", spark, mine, "lines", spark.range(3))
    tight = mine.model_copy(update={"components": spout_manifest(max_pending=5).components})
    refused(ComponentRefusedError, "is 5, .* set it to 6 or more", spark, tight, "lines", source)
    two = SpoutManifest(name="lines", streams=(LINE, declare("line", name="other", codec="avro")))
    several = mine.model_copy(update={"components": (two, *(each for each in mine.components if each.name != "lines"))})
    refused(ComponentRefusedError, "has 2 streams: a Spark spout emits exactly one", spark, several, "lines", source)
    refused(TopicsRefusedError, "does not exist: acker topics create", spark, spout_manifest(), "lines", source)
    for target, error, expected in (
        (source, ComponentRefusedError, "reads topic .* and writes its outcomes to it: name another topic"),
        ("missing", TopicsRefusedError, "topic missing, to which 'lines' writes its outcomes, does not exist"),
    ):
        lines = mine.spout("lines").model_copy(update={"outcomes": OutcomesManifest(topic=target)})
        others = (each for each in mine.components if each.name != "lines")
        writing = mine.model_copy(update={"components": (lines, *others)})
        refused(error, expected, spark, writing, "lines", source)
    consumer = Consumer({**stage.kafka, "group.id": component_group(mine.topology, "lines")})
    consumer.commit(offsets=[TopicPartition(source, 0, 5)], asynchronous=False)
    consumer.close()
    refused(TopicsRefusedError, "ends at 0, before the offset 5 up to which it was acked", spark, mine, "lines", source)


def test_emit(spark: SparkSession, bootstrap_servers: str, tmp_path: Path) -> None:
    stage = Stage(bootstrap_servers, manifest_of(topology_name()), tmp_path)
    refused = refuses(spark_jobs.emit, kafka=stage.kafka)
    rows, mine = spark.sql("select 'x' line"), stage.manifest
    refused(ComponentRefusedError, "'split' is a bolt", rows, 0, mine, "split")
    refused(ComponentRefusedError, "has no stream 'other': it declares default", rows, 0, mine, "lines", stream="other")
    refused(TransformRefusedError, "'line' .* not at all", spark.sql("select 1 n"), 0, mine, "lines")
    refused(SparkJobError, "not a micro-batch", rows, 0, mine, "lines")


def test_checkpoints(spark: SparkSession, bootstrap_servers: str, tmp_path: Path) -> None:
    of_bolts = Stage(bootstrap_servers, manifest_of(topology_name()), tmp_path)
    spout = SpoutStage(bootstrap_servers, tmp_path, spout_manifest(guarantee="at_most_once"))
    spout.checkpoint = tmp_path / "spout"
    # They have read the empty topics, and have a checkpoint.
    of_bolts.drain(spark, explode)
    spout.drain(spark)

    of_spout = refuses(spark_jobs.spout, kafka=spout.kafka, checkpoint=str(spout.checkpoint))
    source = spout.source
    of_spout(
        CheckpointRefusedError, f"source {source}, .* not to ", spark, spout.manifest, "lines",
        f"{spout.manifest.topology}.dead-letters",
    )  # fmt: skip
    of_bolt = refuses(spark_jobs.bolt, kafka=of_bolts.kafka, checkpoint=str(of_bolts.checkpoint))
    other = Stage(bootstrap_servers, manifest_of(topology_name()), tmp_path).manifest
    of_bolt(CheckpointRefusedError, f"belongs to .*{of_bolts.manifest.topology}", spark, other, "split", explode)

    foreign = tmp_path / "foreign"
    query = spark.readStream.format("rate").load().writeStream.format("noop")
    query.option("checkpointLocation", str(foreign)).start().stop()
    of_bolt(
        CheckpointRefusedError, "made by another Spark query", spark, of_bolts.manifest, "split", explode,
        checkpoint=str(foreign),
    )  # fmt: skip

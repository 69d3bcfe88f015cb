"""Runs the Python of `docs/spark.md` unchanged, on a real broker."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import NewTopic
from pyspark.sql import SparkSession

import spark_jobs
from spout_sdk import Topology, TopologyBuilder, declare
from tests.kafka.sdk_rig import Cluster, in_threads, write
from tests.pages import blocks
from tests.spark.rig import Stage, topology_name
from tests.spark.test_bolt import LINES, WORDS
from tests.spark.topologies import manifest_of
from tests.topics import create_topics
from tests.waiting import eventually
from tuple_tree.names import tuples_topic
from tuple_tree.payloads import decode_tuples, payload_codec


@pytest.fixture
def page(spark: SparkSession, tmp_path: Path) -> dict[str, Any]:
    """The names that the blocks of the page define, in order, with the topic and the directory of the test."""
    names: dict[str, Any] = {"topic": topology_name()}
    for block in blocks("docs/spark.md"):
        exec(block.replace("lines-of-text", names["topic"]).replace("/shared/text", str(tmp_path)), names)
    return names


@pytest.mark.exhaustive
def test_the_topology_counts_words(page: dict[str, Any], bootstrap_servers: str, tmp_path: Path) -> None:
    built = page["topology"]()
    topology = Topology(built.manifest.model_copy(update={"topology": topology_name()}), built.factories)
    cluster = Cluster(bootstrap_servers, topology.manifest)
    cluster.create_topics()
    create_topics(cluster.bootstrap, [NewTopic(page["topic"], 2, 1)])
    write(cluster.bootstrap, page["topic"], LINES, 2)

    with in_threads(topology, cluster.bootstrap, ("count",)) as sdk:
        spout, bolt = page["start"](topology, cluster.bootstrap, str(tmp_path))
        eventually(lambda: spout.outcomes.acked == len(LINES), "all lines to be acked", 120)
        for running in (spout, bolt):
            running.stop()
            assert running.wait(30)
    assert spout.outcomes.failed == 0
    assert Counter(sdk.stats["count"].counters) == WORDS


@pytest.mark.exhaustive
def test_the_aggregation(page: dict[str, Any], spark: SparkSession, bootstrap_servers: str, tmp_path: Path) -> None:
    words = declare({"word": str, "n": int}, codec="avro")
    stage = Stage(bootstrap_servers, manifest_of(topology_name(), words=words), tmp_path)
    kept, too_long = stage.send([("a b a",), ("x" * 101,)])
    stage.drain(spark, page["count_in_batch"])
    assert sorted(stage.values()) == [("a", 2), ("b", 1)]
    stage.ack_received()
    outcome = stage.outcome()
    assert outcome.acked == {kept}
    assert outcome.failed == {too_long: "no word is this long"}


def test_the_sources(page: dict[str, Any], spark: SparkSession) -> None:
    source = page["orders"](spark)
    assert isinstance(source, spark_jobs.Source)
    assert set(source.fields or ()) == {"order", "euros"}
    assert page["text"](spark).columns == ["line"]


@pytest.mark.exhaustive
def test_any_streaming_job_is_a_source(
    page: dict[str, Any], spark: SparkSession, bootstrap_servers: str, tmp_path: Path
) -> None:
    builder = TopologyBuilder(topology_name())
    builder.set_spout("counts", page["text"], external=True, streams=[declare({"n": int}, codec="avro")])
    builder.set_bolt("add", page["split"], external=True).shuffle_grouping("counts")
    topology = builder.build()
    cluster = Cluster(bootstrap_servers, topology.manifest)
    cluster.create_topics()
    query = page["counts_a_minute"](spark, topology, cluster.bootstrap, str(tmp_path))
    inbox = tuples_topic(topology.name, "add")
    try:
        record = eventually(lambda: cluster.records(inbox), "a count", 120)[0]
    finally:
        query.stop()
    value = record.value()
    assert isinstance(value, bytes)
    ((count,),) = decode_tuples(payload_codec(topology.manifest.stream("counts", "default")), value)
    assert count > 0

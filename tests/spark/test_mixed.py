"""Components of the SDK and of Spark in one topology, and a streaming job of the user's as a source."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import spark_jobs
from acker_worker.catalogue import Catalogue
from spout_sdk import BasicBolt, BasicCollector, Spout, SpoutCollector, TaskContext, Topology, TopologyBuilder, Tuple
from tests.kafka.sdk_rig import Cluster
from tests.spark.figures import figures, last_figures
from tests.spark.rig import InThread, Stage, forget_commit, topology_name
from tests.spark.spout_rig import acker_of
from tests.spark.test_bolt import LINES, WORDS, explode
from tests.spark.topologies import LINE, WORD, manifest_of
from tests.waiting import eventually


class Lines(Spout):
    """Emits as many lines as it may; what fails is not emitted again, so nothing makes up for a loss."""

    streams = (LINE,)
    allowed = 0

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        self.collector = collector
        self.emitted = 0

    def next_tuple(self) -> None:
        if self.emitted < Lines.allowed:
            self.collector.emit((LINES[self.emitted],), message_id=self.emitted)
            self.emitted += 1


class Shout(BasicBolt):
    streams = (WORD,)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        collector.emit((tuple_["word"].upper(),))


def mixed(written: str) -> Topology:
    """lines → split (in Spark) → shout → tally (in Spark), which writes down what it receives."""

    def tally(rows: DataFrame) -> DataFrame:
        rows.select("word").write.mode("append").json(written)
        return rows.select("_tracking")

    builder = TopologyBuilder(topology_name(), ack_partitions=3, tick=0.5, message_timeout=600, max_tree_age=1_200)
    builder.set_spout("lines", Lines)
    split = builder.set_bolt("split", explode, tasks=2, external=True, streams=[WORD])
    split.shuffle_grouping("lines")
    builder.set_bolt("shout", Shout, tasks=2).fields_grouping("split", "word")
    builder.set_bolt("tally", tally, tasks=2, external=True).fields_grouping("shout", "word")
    return builder.build()


@pytest.mark.exhaustive
def test_spark_and_sdk_components_in_turn(spark: SparkSession, bootstrap_servers: str, tmp_path: Path) -> None:
    """A bolt in Spark is stopped between two micro-batches, and goes on where it was."""
    topology = mixed(str(tmp_path / "written"))
    cluster = Cluster(bootstrap_servers, topology.manifest)
    cluster.create_topics()
    Catalogue(cluster.bootstrap).publish(topology.manifest)

    def start(name: str) -> spark_jobs.RunningQuery:
        transform, checkpoint = topology.factories[name], str(tmp_path / name)
        return spark_jobs.bolt(spark, topology, name, transform, kafka=cluster.bootstrap, checkpoint=checkpoint)

    Lines.allowed = 40
    acker = acker_of(topology.name, cluster.bootstrap)
    acker.start()
    with InThread(topology, "shout", cluster.kafka), InThread(topology, "lines", cluster.kafka) as lines:
        split, tally = start("split"), start("tally")
        eventually(lambda: lines.stats.acked == 40, "the first lines to be acked", 120)
        split.stop()
        assert split.wait(60)
        Lines.allowed = len(LINES)
        split = start("split")
        eventually(lambda: lines.stats.acked == len(LINES), "all lines to be acked", 120)
        for running in (split, tally):
            running.stop()
            assert running.wait(60)
    acker.stop()
    assert (lines.stats.emitted, lines.stats.failed) == (len(LINES), {})
    found = Counter(
        json.loads(row)["word"]
        for file in (tmp_path / "written").glob("*.json")
        for row in file.read_text().splitlines()
    )
    assert found == {word.upper(): count for word, count in WORDS.items()}, (
        "each word once, the restart notwithstanding"
    )
    said = last_figures(cluster.bootstrap, topology.manifest, "split")
    assert said["owned_tasks"] == 0
    shown = figures(cluster.bootstrap, topology.manifest)["tally"]
    assert shown["totals"] == {"emitted": 0, "transferred": 0, "executed": WORDS.total(), "acked": WORDS.total()}


def test_rows_that_a_job_emits_become_trees_and_the_same_ones_again(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path
) -> None:
    stage = Stage(bootstrap_servers, manifest_of(topology_name(), ack_partitions=3), tmp_path)
    source, rows = tmp_path / "source", ["one", "two", "one", "three", "one"]
    source.mkdir()
    (source / "lines.txt").write_text("\n".join(rows))
    written: list[spark_jobs.Written] = []

    def run() -> None:
        def each(batch: DataFrame, number: int) -> None:
            lines = batch.select(F.col("value").alias("line")).orderBy(F.rand())
            written.append(spark_jobs.emit(lines, number, stage.manifest, "lines", kafka=stage.kafka))

        stream: Any = spark.readStream.text(str(source)).writeStream.foreachBatch(each)
        query = stream.option("checkpointLocation", str(stage.checkpoint)).trigger(availableNow=True).start()
        assert query.awaitTermination(120)

    run()
    roots = stage.anchored("split")
    assert Counter(line for (line,) in stage.values("split", "lines")) == Counter(rows)
    assert len(roots) == len(stage.received("split")) == written[0].tuples == 5
    assert not stage.outcome().acked
    forget_commit(stage.checkpoint)
    run()
    assert len(stage.received("split")) == 10
    assert stage.anchored("split") == roots, "whatever the order of the rows"
    assert not stage.outcome().acked
    stage.ack_received("split")
    assert stage.outcome().acked == roots

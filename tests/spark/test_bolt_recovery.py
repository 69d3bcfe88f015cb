"""A Spark bolt that is interrupted: what is written twice is recognised, and nothing stays open."""

import logging
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_jobs.micro_batch import BoltBatch
from tests.kafka.sdk_rig import headers_of
from tests.spark.rig import Stage, topology_name
from tests.spark.test_bolt import LINES, explode
from tests.spark.topologies import manifest_of
from tests.waiting import eventually
from tuple_tree.anchors import unpack_anchors


@pytest.fixture
def stage(bootstrap_servers: str, tmp_path: Path) -> Stage:
    return Stage(bootstrap_servers, manifest_of(topology_name(), ack_partitions=3), tmp_path)


def edges_of(stage: Stage) -> Counter[int]:
    return Counter(
        edge for record in stage.received() for edge in unpack_anchors(headers_of(record)["anchors"]).values()
    )


@pytest.mark.parametrize("lanes", [1, 2])
def test_a_micro_batch_that_is_run_again_is_recognised(spark: SparkSession, stage: Stage, lanes: int) -> None:
    """The driver died between the sink's write and Spark's commit."""
    roots = stage.send([(line,) for line in LINES])
    stage.drain(spark, explode, lanes=lanes)
    once = edges_of(stage)
    stage.ack_received()
    batches = stage.outcome().counters

    stage.forget_commit()
    roots += stage.send([("more of it",)])
    stage.drain(spark, explode, lanes=lanes)
    twice = edges_of(stage)
    assert {edge: twice[edge] for edge in once} == dict.fromkeys(once, 2), "the same edges again"
    assert len(twice) == len(once) + 3

    outcome = stage.outcome()
    # The openings of both kinds of lanes, and the batches of micro-batch 0, on each lane of each partition.
    assert outcome.counters.repeated_batches - batches.repeated_batches == 3 * 3 * lanes
    assert outcome.counters.superseded_batches == 0
    assert set(roots[:-1]) <= outcome.acked
    assert outcome.open == 1, "only the tree whose words nobody has acked yet"


def test_a_write_that_fails_half_way_is_made_again(
    spark: SparkSession, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver died after all was written, and before the query knew."""
    stage.send([(line,) for line in LINES])
    run = BoltBatch.run

    def dying(*arguments: object) -> None:
        run(*arguments)  # type: ignore[arg-type]
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(BoltBatch, "run", dying)
        query = stage.start(spark, explode, trigger={"availableNow": True})
        with pytest.raises(Exception, match="killed"):
            query.wait(60)
    once = edges_of(stage)
    stage.ack_received()
    stage.drain(spark, explode)
    assert edges_of(stage) == dict.fromkeys(once, 2)
    outcome = stage.outcome()
    assert outcome.acked == set(stage.roots)
    assert outcome.open == 0
    assert outcome.counters.repeated_batches > 0


def test_a_task_that_fails_once_is_tried_again(spark: SparkSession, stage: Stage, tmp_path: Path) -> None:
    failed = tmp_path / "failed"

    @F.udf("string")
    def fragile(line: str) -> str:
        if line == LINES[-1]:
            try:
                failed.touch(exist_ok=False)
            except FileExistsError:
                return line
            raise ValueError("the first attempt fails")
        return line

    roots = stage.send([(line,) for line in LINES])
    stage.drain(spark, lambda rows: explode(rows.withColumn("line", fragile("line"))))
    assert failed.exists()
    assert set(edges_of(stage).values()) == {1}
    stage.ack_received()
    outcome = stage.outcome()
    assert outcome.acked == set(roots)
    assert outcome.open == 0


def test_another_checkpoint_supersedes_the_first(spark: SparkSession, stage: Stage) -> None:
    stage.send([("a b",)])
    stage.drain(spark, explode)
    stage.forget_checkpoint()
    stage.drain(spark, explode)
    assert len(edges_of(stage)) == 4, "another query makes other edges"
    outcome = stage.outcome()
    assert outcome.counters.repeated_batches == 0
    assert outcome.counters.acks == 2


def test_a_query_stops_between_two_micro_batches(
    spark: SparkSession, stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "spark_jobs.progress")
    roots = stage.send([(line,) for line in LINES])
    query = stage.start(spark, explode, max_rows=50)
    eventually(lambda: query.written(1), "the second micro-batch")
    query.stop()
    assert query.wait(60)
    assert not query.query.isActive
    assert " rows in, " in caplog.text
    assert "Traceback" not in caplog.text
    done = len(list((stage.checkpoint / "commits").glob("[0-9]*")))
    assert done >= 2
    stage.drain(spark, explode, max_rows=50)
    assert set(edges_of(stage).values()) == {1}, "nothing was written twice"
    stage.ack_received()
    assert stage.outcome().acked == set(roots)

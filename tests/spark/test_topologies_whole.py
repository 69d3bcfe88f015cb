"""Topologies that mix components of the SDK and of Spark: every tree is acked, and every word is counted."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import spark_jobs
from benchmarks import words
from benchmarks.spark_topology import fill, run
from inspection.observer import Observer
from inspection.view import ComponentView
from tests.spark.mixed_stage import MixedStage, mixed_stage
from tests.spark.mixed_topologies import BEGUN, COMPLETE, tally
from tests.waiting import eventually

MESSAGES = 3_000
# Longer than a test: that trees time out is not what these are about.
TIMEOUT = 600.0


def test_spark_between_sdk_components(spark: SparkSession, bootstrap_servers: str, tmp_path: Path) -> None:
    with mixed_stage("spark_in_the_middle", bootstrap_servers, tmp_path, timeout=TIMEOUT, max_pending=1_000) as stage:
        split = spark_jobs.bolt(
            spark, stage.topology, "split", words.explode, kafka=stage.kafka, checkpoint=str(tmp_path / "split")
        )
        try:
            stage.allow(MESSAGES)
            stage.await_complete(MESSAGES, "those of the SDK spout")
        finally:
            split.stop()
        stage.close()
        spout, ackers = stage.spout, stage.ackers
    assert spout.counters == {BEGUN: MESSAGES, COMPLETE: MESSAGES}
    assert (spout.emitted, spout.acked, spout.failed) == (MESSAGES, MESSAGES, {})
    assert (ackers.trees_acked, ackers.pending, ackers.orphans) == (MESSAGES, 0, 0)
    assert sorted(words.counted(stage.counted)) == sorted(words.places(MESSAGES)), "each word of each message, once"


def test_the_sdk_between_spark_components(spark: SparkSession, bootstrap_servers: str, tmp_path: Path) -> None:
    with mixed_stage("sdk_in_the_middle", bootstrap_servers, tmp_path, timeout=TIMEOUT, max_pending=2_000) as stage:
        source = f"{stage.topology.name}.{words.SOURCE}"
        fill(stage.kafka, source, MESSAGES)
        last = spark_jobs.bolt(
            spark, stage.topology, "tally", tally, kafka=stage.kafka, checkpoint=str(tmp_path / "tally")
        )
        try:
            lines = spark_jobs.spout(
                spark,
                stage.topology,
                "lines",
                source,
                kafka=stage.kafka,
                checkpoint=str(tmp_path / "lines"),
                trigger={"availableNow": True},
            )
            try:
                assert lines.wait(90), f"{lines.outcomes.outstanding} trees are open"
                assert_said(stage, sum(1 for _ in words.places(MESSAGES)))
            finally:
                lines.stop()
        finally:
            last.stop()
        stage.close()
        ackers = stage.ackers
    assert (lines.outcomes.acked, lines.outcomes.failed, lines.outcomes.ignored) == (MESSAGES, 0, 0)
    assert (ackers.trees_acked, ackers.pending, ackers.orphans) == (MESSAGES, 0, 0)
    tallied = [json.loads(row) for file in stage.counted.glob("*.json") for row in file.read_text().splitlines()]
    found = sorted((row["message"], row["position"], row["word"]) for row in tallied)
    assert found == sorted(words.places(MESSAGES)), "each word of each message, once"


def assert_said(stage: MixedStage, tuples: int) -> None:
    """`acker top` has the figures of the spout, which has ended, and of the last bolt, which still runs."""
    observer = Observer(stage.kafka, stage.topology.manifest)
    observer.open()
    try:

        def components() -> dict[str, ComponentView] | None:
            observer.follow(0.2)
            found = {each["name"]: each for each in observer.snapshot()["components"]}
            first, last = found["lines"], found["tally"]
            done = (first["totals"]["acked"], last["totals"]["executed"]) == (MESSAGES, tuples)
            return found if done and (first["processes"], last["processes"]) == (0, 1) else None

        said = eventually(components, "the last of the spout, and the bolt's last micro-batch")
        assert said is not None
        points = observer.view.history()["points"]
    finally:
        observer.close()
    lines, tallied = said["lines"], said["tally"]
    assert lines["totals"] == {"emitted": MESSAGES, "transferred": MESSAGES, "executed": 0, "acked": MESSAGES}
    assert (lines["failed"], lines["pending"], lines["dead_letters"], lines["processes"]) == ({}, 0, 0, 0)
    assert any(point["complete_p50"] is not None for point in points)
    assert tallied["totals"] == {"emitted": 0, "transferred": 0, "executed": tuples, "acked": tuples}
    assert (tallied["processes"], tallied["owned_tasks"], tallied["tasks"]) == (1, 2, 2)
    assert (tallied["failed"], tallied["failed_per_second"], tallied["pending"]) == ({}, 0.0, None)
    assert (tallied["process_latency"], tallied["execute_latency"], tallied["lag"]) == (None, None, None)


@pytest.mark.parametrize(("messages", "fail_rate"), [(20_000, 0.0), (4_000, 0.02)])
def test_two_spark_components_before_the_sdk(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path, messages: int, fail_rate: float
) -> None:
    # A pause of the machine must not cost a process its place in the group.
    kafka = {"bootstrap.servers": bootstrap_servers, "session.timeout.ms": 15_000, "log_level": 2}
    # Micro-batches are half of what may be pending: so large that there are several ack batches for each partition.
    result = run(spark, kafka, tmp_path, messages, fail_rate, max_pending=32_000, within=120)
    failing = sum(words.chosen(message, fail_rate) for message in range(messages))
    assert bool(failing) == bool(fail_rate)
    assert result.counts_exact
    assert result.replayed_as_chosen
    assert (result.acked, result.failed, result.replayed, result.repeats) == (messages, failing, failing, 0)
    assert (result.pending_at_ackers, result.timeouts, result.repeated_batches) == (0, 0, 0)


@pytest.mark.parametrize("rate", [0.0, 0.02, 1.0])
def test_as_many_are_chosen_to_fail_as_was_asked_for(rate: float) -> None:
    assert sum(words.chosen(message, rate) for message in range(10_000)) == pytest.approx(10_000 * rate, rel=0.02)

"""Tasks of a Spark bolt that fail and are tried again, in a whole topology with real ackers and an SDK bolt behind.

Where a user's function fails, nothing was written yet: acks are packed in a shuffle that needs all of a micro-batch. So
tuples are there twice only if a task of the write itself fails. Their edges are the same then, the SDK bolt acks both,
and where both acks come before the one of the Spark bolt they cancel out: the tree is open until it times out.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pandas as pd
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.functions import pandas_udf

import spark_jobs
from benchmarks import words
from tests.spark.mixed_stage import MixedStage, mixed_stage
from tests.spark.mixed_topologies import BEGUN, COMPLETE
from tests.waiting import eventually

TIMEOUT = 15.0


@pytest.fixture
def small_chunks(spark: SparkSession) -> Iterator[None]:
    """Rows reach a user's function, and leave what Spark keeps in memory, in many steps."""
    settings = {
        "spark.sql.execution.arrow.maxRecordsPerBatch": "50",
        "spark.sql.inMemoryColumnarStorage.batchSize": "100",
    }
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name, old in before.items():
        assert old is not None
        spark.conf.set(name, old)


def assert_all_acked(stage: MixedStage, messages: int) -> None:
    """After `close`: every message was acked, and counted under its id."""
    spout = stage.spout
    assert (spout.counters[BEGUN], spout.counters[COMPLETE], spout.acked) == (messages, messages, messages)
    assert spout.emitted == spout.acked + sum(spout.failed.values()), "each tree had one outcome"
    stage.assert_all_counted(messages)
    assert stage.ackers.pending == 0


def test_a_function_that_fails_half_way_is_called_again(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path, small_chunks: None
) -> None:
    messages, failed = 1_000, tmp_path / "failed"

    def half_way(message: pd.Series, line: pd.Series) -> pd.Series:
        if (message >= messages // 2).any():
            try:
                failed.touch(exist_ok=False)
            except FileExistsError:
                return line
            raise ValueError("the first attempt fails")
        return line

    # Its overloads do not know that a function with annotations needs no type.
    fragile = cast(Any, pandas_udf)(half_way, "string")

    def transform(rows: DataFrame) -> DataFrame:
        return words.explode(rows.withColumn("line", fragile("message", "line")))

    with mixed_stage(
        "spark_in_the_middle", bootstrap_servers, tmp_path, timeout=TIMEOUT, max_pending=messages
    ) as stage:
        split = spark_jobs.bolt(
            spark, stage.topology, "split", transform, kafka=stage.kafka, checkpoint=str(tmp_path / "split")
        )
        try:
            stage.allow(messages)
            stage.await_complete(messages, "a function failed once")
        finally:
            split.stop()
        stage.close()
        assert failed.exists()
        assert_all_acked(stage, messages)
        assert set(stage.edges("count").values()) == {1}, "nothing was written twice"


def test_a_write_that_is_cut_off_is_made_again(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path, small_chunks: None
) -> None:
    first, messages = 100, 10_000
    with mixed_stage(
        "spark_in_the_middle", bootstrap_servers, tmp_path, timeout=TIMEOUT, max_pending=messages
    ) as stage:

        def start() -> spark_jobs.RunningQuery:
            return spark_jobs.bolt(
                spark, stage.topology, "split", words.explode, kafka=stage.kafka, checkpoint=str(tmp_path / "split")
            )

        # The first micro-batch of a session takes so long that trees may time out only because of that.
        split = start()
        try:
            stage.allow(first)
            stage.await_complete(first, "the first ones")
        finally:
            split.stop()
        given_up = stage.spout.failed.get("timeout", 0)
        waiting, already = stage.received("split") + messages - first, stage.received("count")
        stage.allow(messages)
        eventually(lambda: stage.check() or stage.received("split") == waiting, "one large micro-batch to wait")
        since, split = next_task(spark), start()
        try:
            eventually(lambda: stage.check() or stage.received("count") > already, "its write to begin")
            killed = kill_running_tasks(spark, since)
            written = stage.received("count") - already
            stage.await_complete(messages, "a write was cut off")
        finally:
            split.stop()
        stage.close()
        assert_all_acked(stage, messages)
        repeated = {root for (root, _), times in stage.edges("count").items() if times > 1}
        assert repeated, f"the {killed} tasks that were killed had written nothing; {written} tuples were there"
        # Trees whose tuples were acked twice before the bolt's own ack came, and no others, were replayed.
        replayed = stage.spout.failed["timeout"] - given_up
        assert 0 < replayed <= len(repeated)
        assert stage.spout.emitted == messages + given_up + replayed


def next_task(spark: SparkSession) -> int:
    """The number that the next task will have, or one before it; they are numbered as they start."""

    def number(_: int) -> int:
        found = TaskContext.get()
        assert found is not None
        return found.taskAttemptId()

    return spark.sparkContext.parallelize([0], 1).map(number).first()


def kill_running_tasks(spark: SparkSession, since: int) -> int:
    """Kills all tasks that run, of those that started since one; Spark starts them again. Returns how many."""
    kill = spark.sparkContext._jsc.sc().killTaskAttempt
    return sum(kill(number, True, "cut off by the test") for number in range(since, since + 100))

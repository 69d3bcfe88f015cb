"""Tasks of a Spark bolt that fail and are tried again, in a whole topology with real ackers and an SDK bolt behind.

Where a user's function fails, nothing was written yet: acks are packed in a shuffle that needs all of a micro-batch. So
tuples are there twice only if a task of the write itself fails. Their edges are the same then, the SDK bolt acks both,
and where both acks come before the one of the Spark bolt they cancel out: the tree is open until it times out.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pandas as pd
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.functions import pandas_udf

import spark_jobs
from benchmarks import words
from spark_jobs import micro_batch
from spark_jobs.ack_batches import AckLanes
from spark_jobs.deliveries import tuple_records
from spark_jobs.outputs import Outputs
from tests.spark.mixed_stage import MixedStage, mixed_stage
from tests.spark.mixed_topologies import BEGUN, COMPLETE
from tests.waiting import eventually
from tuple_tree.ids import unsigned

# Longer than a test: which trees stay open is what this is about.
TIMEOUT = 600.0
pytestmark = pytest.mark.timeout(TIMEOUT)


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
            stage.await_complete(messages, "a function failed once", 240)
        finally:
            split.stop()
        stage.close()
        assert failed.exists()
        spout = stage.spout
        assert spout.counters == {BEGUN: messages, COMPLETE: messages}
        assert (spout.emitted, spout.acked, spout.failed) == (messages, messages, {})
        assert stage.ackers.pending == 0
        stage.assert_all_counted(messages)
        assert set(stage.edges("count").values()) == {1}, "nothing was written twice"


class CutOff:
    """Holds tuples back in the middle of a write, until that task is killed, and then acks, until they are let go.

    Args:
        directory: for what the tasks tell and are told.
    """

    def __init__(self, directory: Path) -> None:
        self._held = directory / "held"
        self._acks = directory / "acks"

    @property
    def holds(self) -> bool:
        """Whether a task is held."""
        return self._held.exists()

    def held(self) -> tuple[int, set[int]]:
        """The task that is held, and the edges of the first tuples that it let through."""
        task, *edges = json.loads(self._held.read_text())
        return task, {unsigned(edge) for edge in edges}

    def tuples(self, deliveries: DataFrame, outputs: Outputs) -> DataFrame:
        """Instead of `tuple_records`: the first task that comes to its third chunk stays there."""
        told, fresh, claim = self._held, self._held.with_suffix(".new"), self._held.with_suffix(".claim")

        def hold(edges: Iterator[pd.Series]) -> Iterator[pd.Series]:
            first: list[int] = []
            for number, chunk in enumerate(edges):
                if number == 2:
                    try:
                        claim.touch(exist_ok=False)
                    except FileExistsError:
                        # Another one is held, or was.
                        pass
                    else:
                        found = TaskContext.get()
                        assert found is not None
                        fresh.write_text(json.dumps([found.taskAttemptId(), *first]))
                        fresh.rename(told)
                        eventually(lambda: False, "to be killed", 240)
                first = first or [int(edge) for edge in chunk]
                # What is as long as this does not stay in a buffer on its way back.
                yield pd.Series(["x" * 4_000] * len(chunk))

        held = cast(Any, pandas_udf)(hold, "string")
        return tuple_records(deliveries.where(F.length(held("edge")) > 0), outputs)

    def acks(self, records: DataFrame) -> DataFrame:
        """Records that are written only after `let_acks_go`."""
        told = self._acks

        def hold(partition: pd.Series) -> pd.Series:
            eventually(told.exists, "the acks to be let go", 240)
            return partition >= 0

        # Spark would filter before it packs, if it could: all tuples wait for that.
        held = cast(Any, pandas_udf)(hold, "boolean").asNondeterministic()
        return records.where(held("partition"))

    def let_acks_go(self) -> None:
        self._acks.touch()


@pytest.fixture
def cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CutOff:
    """Between the bolts of this process and their write."""
    held, acks = CutOff(tmp_path), AckLanes.acks
    monkeypatch.setattr(micro_batch, "tuple_records", held.tuples)
    monkeypatch.setattr(AckLanes, "acks", lambda *of, **what: held.acks(acks(*of, **what)))
    return held


def test_a_write_that_is_cut_off_is_made_again(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path, small_chunks: None, cut_off: CutOff
) -> None:
    messages = 2_000
    with mixed_stage(
        "spark_in_the_middle", bootstrap_servers, tmp_path, timeout=TIMEOUT, max_pending=messages
    ) as stage:
        stage.allow(messages)
        eventually(lambda: stage.check() or stage.received("split") == messages, "one large micro-batch to wait")
        split = spark_jobs.bolt(
            spark, stage.topology, "split", words.explode, kafka=stage.kafka, checkpoint=str(tmp_path / "split")
        )
        try:
            eventually(lambda: stage.check() or cut_off.holds, "its write to begin", 120)
            task, before = cut_off.held()
            eventually(lambda: before <= edges_of(stage), "what was written before", 120)
            assert spark.sparkContext._jsc.sc().killTaskAttempt(task, True, "cut off by the test")
            everything = sum(1 for _ in words.places(messages))
            eventually(lambda: stage.check() or len(edges_of(stage)) == everything, "the write to be made again", 120)
            # It acks both of those that are there twice before the Spark bolt has acked anything.
            eventually(lambda: stage.processed("count") == stage.received("count"), "the SDK bolt to be through", 120)
            times = stage.edges("count")
            assert set(times.values()) == {1, 2}
            repeated = {root for (root, _), count in times.items() if count == 2}
            assert before <= {edge for (_, edge), count in times.items() if count == 2}
            assert stage.ackers.trees_acked == 0
            cut_off.let_acks_go()
            complete = messages - len(repeated)
            eventually(lambda: stage.check() or stage.spout.acked >= complete, f"{complete} trees to complete", 120)
        finally:
            cut_off.let_acks_go()
            split.stop()
        stage.close()
        spout, ackers = stage.spout, stage.ackers
        # Those whose tuples were acked twice, and no others, wait for their time-out.
        assert spout.counters == {BEGUN: messages, COMPLETE: complete}
        assert (spout.emitted, spout.acked, spout.failed) == (messages, complete, {})
        assert (ackers.trees_acked, ackers.pending, ackers.orphans) == (complete, len(repeated), 0)
        assert stage.edges("count") == times, "nothing more was written"
        stage.assert_all_counted(messages)


def edges_of(stage: MixedStage) -> set[int]:
    return {edge for _, edge in stage.edges("count")}

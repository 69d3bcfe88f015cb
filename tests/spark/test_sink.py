"""A bolt in Spark that writes where Spark writes: its inputs are acked when that is done."""

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from spark_jobs import ComponentRefusedError
from tests.manifests import bolt, manifest
from tests.spark.rig import Stage, forget_commit, topology_name
from tests.spark.test_bolt import LINES
from tests.spark.topologies import manifest_of


def test_a_bolt_that_ends_in_a_sink(spark: SparkSession, bootstrap_servers: str, tmp_path: Path) -> None:
    """Inputs of a sink are acked when they are written, and a re-run has the same batch id."""
    spout, *_ = manifest_of(topology_name()).components
    sink = bolt("split", "lines", external=True)
    described = manifest(spout, sink, topology=topology_name(), max_tree_age_ms=1_200_000)
    stage = Stage(bootstrap_servers, described, tmp_path)
    roots = set(stage.send([(line,) for line in LINES]))
    batches: list[tuple[int, list[str]]] = []

    def archive(rows: DataFrame, batch_id: int) -> None:
        assert rows.columns == ["line", "_source"]
        assert not stage.outcome().acked, "before it is written"
        path = tmp_path / "lake" / f"batch={batch_id}"
        rows.select("line").write.mode("overwrite").parquet(str(path))
        batches.append((batch_id, sorted(row["line"] for row in spark.read.parquet(str(path)).collect())))

    stage.drain(spark, archive)
    assert batches == [(0, sorted(LINES))]
    assert stage.outcome().acked == roots
    forget_commit(stage.checkpoint)
    batches.clear()

    def again(rows: DataFrame, batch_id: int) -> None:
        batches.append((batch_id, sorted(row["line"] for row in rows.collect())))

    query = stage.drain(spark, again)
    assert batches == [(0, sorted(LINES))], "the same rows and the same id"
    written = query.written(0)
    assert written is not None
    assert (written.rows, written.acked, written.tuples) == (len(LINES), len(LINES), 0)
    assert stage.outcome().acked == roots

    def fails(rows: DataFrame, batch_id: int) -> None:
        raise OSError("the disk is full")

    (late,) = stage.send([("late",)])
    with pytest.raises(StreamingQueryException, match="the disk is full"):
        stage.drain(spark, fails)
    assert late not in stage.outcome().acked
    with_streams = Stage(bootstrap_servers, manifest_of(topology_name()), tmp_path / "other")
    with pytest.raises(ComponentRefusedError, match=r"bolt 'split' with streams cannot be called as function\(rows\)"):
        with_streams.start(spark, archive)

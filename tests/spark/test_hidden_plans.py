"""A transform may hide from Spark's plan that it makes several rows of one input: each row has an edge of its own."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tests.kafka.sdk_rig import headers_of
from tests.spark.rig import Stage, topology_name
from tests.spark.topologies import manifest_of
from tuple_tree.anchors import unpack_anchors


def test_the_rows_of_a_cached_explode_cancel_nothing(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path
) -> None:
    """Four equal rows of each input: with one edge for all of them, their edges would cancel out."""

    def cached(rows: DataFrame) -> DataFrame:
        return rows.select(F.explode(F.split("line", " ")).alias("word"), "_tracking").cache()

    stage = Stage(bootstrap_servers, manifest_of(topology_name()), tmp_path)
    roots = stage.send([("same same same same",)] * 50)
    stage.drain(spark, cached)
    edges = [edge for record in stage.received() for edge in unpack_anchors(headers_of(record)["anchors"]).values()]
    assert len(set(edges)) == len(edges) == 200
    assert not stage.outcome().acked, "no tuple was processed yet"
    stage.ack_received()
    assert stage.outcome().acked == set(roots)

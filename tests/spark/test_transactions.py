"""A Spark bolt behind bolts that write in transactions: what was aborted is not there, and markers are no records."""

from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from tests.spark.rig import Stage, next_id, topology_name
from tests.spark.topologies import manifest_of
from tuple_tree.anchors import Edges, pack_anchors
from tuple_tree.names import tuples_topic
from tuple_tree.streams import payload_codec


def words(rows: DataFrame) -> DataFrame:
    return rows.select(F.col("line").alias("word"), "_tracking")


def write(stage: Stage, outcomes: list[bool]) -> tuple[list[str], list[Edges]]:
    """Writes a transaction of two tuples for each outcome; returns what was committed."""
    topic = tuples_topic(stage.manifest.topology, stage.bolt)
    producer = Producer({**stage.kafka, "transactional.id": topic, "log_level": 2})
    encode = payload_codec(stage.manifest.stream("lines", "default")).encode
    producer.init_transactions(30)
    lines: list[str] = []
    trees: list[Edges] = []
    for commits in outcomes:
        producer.begin_transaction()
        written = [(f"line {next_id()}", {next_id(): next_id()}) for _ in range(2)]
        for line, edges in written:
            headers: list[tuple[str, str | bytes | None]] = [
                ("anchors", pack_anchors(edges)),
                ("source", b"lines/default"),
            ]
            producer.produce(topic, encode((line,)), partition=0, headers=headers)
        assert producer.flush(30) == 0
        if commits:
            producer.commit_transaction(30)
            lines += [line for line, _ in written]
            trees += [edges for _, edges in written]
        else:
            producer.abort_transaction(30)
    stage.init(trees)
    stage.flush()
    return lines, trees


def test_what_was_aborted_is_not_processed(spark: SparkSession, bootstrap_servers: str, tmp_path: Path) -> None:
    stage = Stage(bootstrap_servers, manifest_of(topology_name(), ack_partitions=3), tmp_path)
    # As of somebody who reads everything elsewhere.
    stage.kafka["isolation.level"] = "read_uncommitted"
    lines, trees = write(stage, [True, False, True, False])
    stage.drain(spark, words, max_rows=3)
    assert sorted(stage.values()) == sorted((line,) for line in lines)
    # The last records of the log were markers and aborted ones: it goes on behind them. What is committed can be read
    # when its marker is there, and only then does the transaction behind it begin.
    more, others = write(stage, [False, True, False])
    stage.drain(spark, words)
    assert sorted(stage.values()) == sorted((line,) for line in lines + more)
    stage.ack_received()
    assert stage.outcome().acked == {root for edges in trees + others for root in edges}
    assert stage.dead_letters() == []

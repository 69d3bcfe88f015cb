"""A Spark spout on a real broker, with a real acker: every message is acked, and the source's group says so."""

import random
from collections import Counter
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_jobs.positional_roots import positional_root as root_column
from spark_jobs.positional_roots import positions_of
from tests.kafka.sdk_rig import headers_of, value
from tests.spark.figures import last_figures
from tests.spark.test_spout_stage import PlayedBolt, SpoutStage, await_done, lines, spout_manifest
from tuple_tree.ids import Position, position_of, positional_root, unsigned
from tuple_tree.routing import fields_task
from tuple_tree.streams import declare


def test_positional_roots_are_those_of_python(spark: SparkSession) -> None:
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    largest = Position(63, 4095, 2**40 - 1, 63)
    positions = [
        Position(rng.choice((0, 1, 31, 63)), rng.randrange(4096), rng.randrange(2**40), rng.randrange(64))
        for _ in range(300)
    ]
    positions += [Position(0, 0, 0, 0), Position(0, 0, 1, 0), Position(3, 17, 123456789, 2), largest]
    for spout in sorted({position.spout for position in positions}):
        mine = [position for position in positions if position.spout == spout]
        rows = spark.createDataFrame(
            [(each.partition, each.offset, each.attempt) for each in mine], "partition int, offset bigint, attempt int"
        )
        roots = rows.select(root_column(spout, F.col("partition"), F.col("offset"), F.col("attempt")).alias("root"))
        made = [unsigned(row["root"]) for row in roots.collect()]
        assert made == [positional_root(position) for position in mine], f"seed {seed}"

    columns = positions_of(np.array([positional_root(position) for position in positions], dtype=">u8"))
    read = zip(*(column.tolist() for column in (columns.spout, columns.partition)), strict=True)
    assert list(read) == [(each.spout, each.partition) for each in positions], f"seed {seed}"
    read = zip(*(column.tolist() for column in (columns.offset, columns.attempt)), strict=True)
    assert list(read) == [(each.offset, each.attempt) for each in positions], f"seed {seed}"


def test_every_message_is_acked_and_the_prefix_committed(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path
) -> None:
    stage = SpoutStage(bootstrap_servers, tmp_path)
    stage.produce(lines(3_000))
    with stage, PlayedBolt(stage) as bolt:
        running = stage.drain(spark)
        assert stage.committed() == stage.ends()
        stage.produce(lines(30, start=3_000))
        again = stage.drain(spark)
    assert sorted(bolt.values) == sorted(lines(3_030))
    assert {position_of(root).spout for root, _ in bolt.deliveries} == {1}
    assert set(Counter(map(len, bolt.attempts().values()))) == {1}
    assert (running.outcomes.acked, again.outcomes.acked) == (3_000, 30)
    assert stage.acker.error is None
    assert all(headers_of(record)["source"] == b"lines/default" for record in stage.received())


def test_no_more_trees_are_open_than_allowed(spark: SparkSession, bootstrap_servers: str, tmp_path: Path) -> None:
    limit = 300
    stage = SpoutStage(bootstrap_servers, tmp_path, spout_manifest(max_pending=limit))
    stage.produce(lines(1_500))
    # It acks nothing before as many are open as may be, so the spout has to wait again and again.
    with stage, PlayedBolt(stage, hold=limit, of=1_500) as bolt:
        running = stage.drain(spark)
    assert len(bolt.deliveries) == running.outcomes.acked == 1_500
    assert bolt.most_held == limit
    assert running.outcomes.most <= limit


def test_exactly_what_failed_is_replayed(spark: SparkSession, bootstrap_servers: str, tmp_path: Path) -> None:
    stage = SpoutStage(bootstrap_servers, tmp_path)
    stage.produce(lines(1_000))

    def judge(root: int, payload: bytes) -> str | None:
        number = int(payload.split()[1])
        return "not yet" if number % 50 == 7 and not position_of(root).attempt else None

    with stage, PlayedBolt(stage, judge) as bolt:
        running = stage.start(spark)
        await_done(stage, running)
        running.stop()
        assert running.wait(30)
    twice = {payload for payload, count in Counter(bolt.values).items() if count == 2}
    assert twice == {f"line {number}".encode() for number in range(7, 1_000, 50)}
    assert len(bolt.deliveries) == 1_020
    assert {tuple(each) for each in bolt.attempts().values()} == {(0,), (0, 1)}
    assert (running.outcomes.acked, running.outcomes.failed) == (1_000, 20)
    said = last_figures(stage.kafka, stage.manifest, "lines")
    assert said["totals"] == {"emitted": 1_020, "transferred": 1_020, "executed": 0, "acked": 1_000}
    assert (said["failed"], said["pending"], said["processes"]) == ({"failed": 20}, 0, 0)


def test_after_the_last_attempt_comes_the_dead_letter(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path
) -> None:
    stage = SpoutStage(bootstrap_servers, tmp_path)
    stage.produce(lines(60))

    def judge(_root: int, payload: bytes) -> str | None:
        return "never" if payload in (b"line 5", b"line 30") else None

    with stage, PlayedBolt(stage, judge) as bolt:
        stage.drain(spark, retry_limit=2)
    assert stage.committed() == stage.ends()
    assert Counter(bolt.values)[b"line 5"] == 3
    letters = stage.dead_letters()
    assert sorted(value(letter) for letter in letters) == [b"line 30", b"line 5"]
    said = headers_of(next(letter for letter in letters if value(letter) == b"line 5"))
    assert said["mine"] == b"kept"
    assert said["dead-letter.topic"] == stage.source.encode()
    assert (said["dead-letter.partition"], said["dead-letter.offset"]) == (b"2", b"1")
    assert said["dead-letter.reason"] == b"retries-exhausted"
    assert said["dead-letter.detail"] == b"all 3 attempts failed, the last one with reason failed: never"
    assert said["dead-letter.by"] == b"lines/0"


def test_messages_that_cannot_be_read_are_dead_letters(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path
) -> None:
    stream = declare({"n": int, "word": str}, codec="json")
    stage = SpoutStage(bootstrap_servers, tmp_path, spout_manifest(stream=stream, guarantee="at_most_once"))
    stage.produce([b'{"n": 1, "word": "a"}', b"{", None, b'{"n": 2, "word": "b"}'])
    stage.drain(spark)
    assert sorted(value(record) for record in stage.received()) == [b'{"n":1,"word":"a"}', b'{"n":2,"word":"b"}']
    assert all("anchors" not in headers_of(record) for record in stage.received()), "acking is off"
    letters = stage.dead_letters()
    assert sorted(str(letter.value()) for letter in letters) == ["None", "b'{'"]
    assert {headers_of(letter)["dead-letter.reason"] for letter in letters} == {b"bad-payload"}
    assert stage.committed() == stage.ends()


def test_fields_are_made_of_kafkas_columns(spark: SparkSession, bootstrap_servers: str, tmp_path: Path) -> None:
    # Called like columns of Kafka's and of ours.
    stream = declare({"id": str, "offset": int}, codec="json")
    stage = SpoutStage(
        bootstrap_servers, tmp_path, spout_manifest(stream=stream, group_by="id", guarantee="at_most_once")
    )
    stage.produce([b"a", b"b", b"c", b"d"])
    stage.drain(spark, fields={"id": F.upper(F.col("value").cast("string")), "offset": F.col("offset")})
    made = sorted(value(record) for record in stage.received())
    assert made == [
        b'{"id":"A","offset":0}',
        b'{"id":"B","offset":0}',
        b'{"id":"C","offset":0}',
        b'{"id":"D","offset":1}',
    ]
    for record in stage.received():
        key = record.key()
        assert isinstance(key, bytes)
        assert record.partition() == fields_task(key, 2)
        assert b'"id":"' + key in value(record)

"""A Spark spout on a real broker, with a real acker: every message is delivered until it is acked."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import spark_jobs
from kafka_clients.catalogue import Catalogue
from tests.kafka.sdk_rig import headers_of, value, write_in_transactions
from tests.spark.rig import Stage, forget_commit, last_figures, pairs_of, topology_name
from tests.spark.spout_rig import PARTITIONS, SpoutStage, await_done, lines, spout_manifest
from tests.spark.topologies import manifest_of
from tests.waiting import eventually
from tuple_tree.control import Control
from tuple_tree.messages import NoticeBatch, encode_notice_batch
from tuple_tree.names import notices_topic
from tuple_tree.positions import Position, positional_root
from tuple_tree.routing import fields_task
from tuple_tree.streams import declare


def stop(running: spark_jobs.RunningQuery) -> None:
    running.stop()
    assert running.wait(30)


def test_messages_are_delivered_until_acked_or_dead(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path
) -> None:
    stage = SpoutStage(bootstrap_servers, tmp_path, spout_manifest(stream=declare({"line": str}), outcomes="json"))
    stage.kafka["isolation.level"] = "read_committed"
    # A message that was aborted, and its marker, are offsets without a message.
    write_in_transactions(stage.kafka, stage.source, [(b"aborted", False)])
    # The broker answers before it has written the marker.
    eventually(lambda: stage.ends()[0] == 2, "the marker of the aborted transaction")
    stage.feed(lines(300))

    def fail_message(root: int, payload: bytes) -> str | None:
        if payload in (b"line 5", b"line 30"):
            return "never"
        return "not yet" if int(payload.split()[1]) % 50 == 7 and not stage.position_of(root).attempt else None

    notices = notices_topic(stage.manifest.topology, "lines")
    strange = [Position(0, 0, 0), Position(1, 99, 0)]
    roots = [positional_root(each, stage.topic_key, stage.manifest.ack_partitions) for each in strange]
    ignored = NoticeBatch(0, 0, acked_roots=np.array([*roots, 12345], np.uint64))
    with stage.played(fail_message) as bolt:
        running = stage.start(spark, retry_limit=2)
        stage.produce(notices, 0, b"nonsense", [])
        stage.produce(notices, 0, encode_notice_batch(ignored), [])
        await_done(stage, running)
        eventually(lambda: running.outcomes.ignored == 3, "notices of other trees to be ignored")
        stop(running)
    again = {f"line {number}".encode(): 2 for number in range(7, 300, 50)}
    assert Counter(bolt.values) == {**dict.fromkeys(lines(300), 1), **again, b"line 5": 3, b"line 30": 3}
    for root, payload in bolt.deliveries:
        position, number = stage.position_of(root), int(payload.split()[1])
        behind_marker = 2 if position.partition == 0 else 0
        assert (position.spout, position.partition) == (1, number % PARTITIONS)
        assert position.offset == number // PARTITIONS + behind_marker
    attempts = bolt.attempts()
    assert {tuple(each) for each in attempts.values()} == {(0,), (0, 1), (0, 1, 2)}
    assert (running.outcomes.acked, running.outcomes.failed) == (298, 6 + 2 * 3)
    nonsense, *letters = sorted(stage.dead_letters(), key=value, reverse=True)
    assert (value(nonsense), headers_of(nonsense)["dead-letter.reason"]) == (b"nonsense", b"not-avro")
    assert [value(letter) for letter in letters] == [b"line 5", b"line 30"]
    why = "all 3 attempts failed, the last one with reason failed: never"
    headers = headers_of(letters[0])
    assert headers["mine"] == b"kept"
    assert (headers["dead-letter.reason"], headers["dead-letter.detail"]) == (b"retries-exhausted", why.encode())
    place = (headers[f"dead-letter.{name}"] for name in ("topic", "partition", "offset", "by"))
    assert [*place] == [stage.source.encode(), b"2", b"1", b"lines/0"]
    ended = dict(stage.outcomes())
    assert Counter(key for key, _ in stage.outcomes()) == Counter(lines(300)), "each message has one outcome"
    for key, outcome in ended.items():
        number = int((key or b"").split()[1])
        offset = number // PARTITIONS + (2 if number % PARTITIONS == 0 else 0)
        assert outcome[:3] == (stage.source, number % PARTITIONS, offset)
    found = Counter(outcome[3:5] + outcome[7:] for outcome in ended.values())
    assert found == {
        ("acked", 1, "", "", ""): 292,
        ("acked", 2, "failed", "count", "not yet"): 6,
        ("dead-letter", 3, "retries-exhausted", "count", why): 2,
    }
    shown = last_figures(stage.kafka, stage.manifest, "lines")
    assert shown["totals"] == {"emitted": 310, "transferred": 310, "executed": 0, "acked": 298}
    assert (shown["failed"], shown["pending"], shown["processes"]) == ({"failed": 12}, 0, 0)


@pytest.mark.exhaustive
def test_a_restarted_topology_continues_at_its_position(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path
) -> None:
    """Stopped while `max_spout_pending` is reached, it continues at its checkpoint, or at the offsets of its group."""
    stage = SpoutStage(bootstrap_servers, tmp_path, spout_manifest(max_pending=90))
    stage.feed(lines(150))
    running = stage.start(spark)
    eventually(lambda: len(stage.received()) == 90, "as many tuples as may be open")
    # Two micro-batches are half of what may be open each; the third one waits for room.
    eventually(lambda: (stage.checkpoint / "offsets" / "2").exists(), "the third micro-batch")
    stop(running)
    assert running.query.exception() is None
    assert len(stage.received()) == 90
    assert stage.committed() == [0] * PARTITIONS

    def fail_message(root: int, payload: bytes) -> str | None:
        return "once" if payload == b"line 11" and not stage.position_of(root).attempt else None

    with stage.played(fail_message) as bolt:
        # These outcomes come while no spout runs.
        eventually(lambda: len(bolt.deliveries) == 90, "the tuples of the first run")
        running = stage.start(spark)
        await_done(stage, running)
        stop(running)
        assert running.outcomes.most <= 90
        assert Counter(bolt.values) == Counter([*lines(150), b"line 11"])
        assert bolt.attempts()[2, 3] == [0, 1]
        stage.feed(lines(30, start=150))
        stage.checkpoint = tmp_path / "another"
        stage.drain(spark)
    assert Counter(bolt.values) == Counter([*lines(180), b"line 11"])


def test_a_micro_batch_that_is_run_again(spark: SparkSession, bootstrap_servers: str, tmp_path: Path) -> None:
    """The driver died between the write and Spark's commit: the same roots again, and open trees are replayed."""
    stage = SpoutStage(bootstrap_servers, tmp_path, spout_manifest(timeout_ms=2_000, max_tree_age_ms=60_000))
    stage.feed(lines(200))
    running = stage.start(spark)
    eventually(lambda: len(stage.received()) == 200 and running.written(0), "the first micro-batch")
    stop(running)
    forget_commit(stage.checkpoint)
    running = stage.start(spark)
    eventually(lambda: len(stage.received()) == 400 and running.written(0), "the micro-batch again")
    roots = Counter(root for record in stage.received() for root, _ in pairs_of(record))
    assert set(roots.values()) == {2}, "the same roots, twice"
    with stage.played() as bolt:
        await_done(stage, running)
        stop(running)
    assert set(bolt.values) == set(lines(200)), "every message, some of them more than once"
    assert stage.committed() == stage.ends()
    assert not stage.dead_letters()


@pytest.mark.exhaustive
def test_messages_without_an_outcome_are_lost_and_replayed(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path
) -> None:
    stage = SpoutStage(bootstrap_servers, tmp_path, spout_manifest(timeout_ms=1_000, max_tree_age_ms=2_000))
    stage.feed(lines(20))
    running = stage.start(spark, retry_limit=30)
    # There is no acker yet.
    eventually(lambda: running.outcomes.lost >= 20 and len(stage.received()) >= 40, "trees to be lost")
    with stage.played() as bolt:
        await_done(stage, running)
        stop(running)
    assert set(bolt.values) == set(lines(20))
    assert all({0, 1} <= set(attempts) for attempts in bolt.attempts().values())
    assert not stage.dead_letters()


def test_messages_that_cannot_be_read_are_dead_letters(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path
) -> None:
    """Without acking, tuples have no anchors; `latest` begins at the end if there is no committed offset."""
    # Called like a column of Kafka's.
    stream = declare({"n": int, "offset": str}, codec="json")
    manifest = spout_manifest(stream=stream, group_by="offset", guarantee="at_most_once")
    stage = SpoutStage(bootstrap_servers, tmp_path, manifest)
    stage.feed([b'{"n": 0, "offset": "skipped"}'] * PARTITIONS)
    stage.drain(spark, starting_offsets="latest")
    assert stage.committed() == [1] * PARTITIONS
    stage.feed([b'{"n": 1, "offset": "a"}', b"{", None, b'{"n": 2, "offset": "b"}'])
    stage.drain(spark, starting_offsets="latest")
    assert sorted(map(value, stage.received())) == [b'{"n":1,"offset":"a"}', b'{"n":2,"offset":"b"}']
    for record in stage.received():
        assert record.partition() == fields_task(record.key() or b"", 2)
        assert headers_of(record) == {"source": b"lines/default"}, "acking is off"
    assert sorted(str(letter.value()) for letter in stage.dead_letters()) == ["None", "b'{'"]
    assert stage.committed() == stage.ends()


@pytest.mark.exhaustive
def test_rows_of_a_data_frame_land_and_are_delivered_until_acked(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path
) -> None:
    stream = declare({"n": int, "word": str}, codec="json")
    stage = SpoutStage(bootstrap_servers, tmp_path, spout_manifest(stream=stream))
    files = tmp_path / "files"
    files.mkdir()
    (files / "one.json").write_text('{"n": 1, "word": "a"}\n{"n": 2}\n{"n": 3, "word": "b"}\n')
    rows = spark.readStream.schema("n bigint, word string").json(str(files))
    settings: Any = {"kafka": stage.kafka, "checkpoint": str(stage.checkpoint), "trigger": {"availableNow": True}}
    stage.source = f"{stage.manifest.topology}.replay.lines"

    def fail_message(root: int, payload: bytes) -> str | None:
        return "not yet" if payload == b"a" and not stage.position_of(root).attempt else None

    with stage.played(fail_message) as bolt:
        assert spark_jobs.spout(spark, stage.manifest, "lines", rows, **settings).wait(120)
        assert sorted(bolt.values) == [b"a", b"a", b"b"]
        (files / "two.json").write_text('{"n": 4, "word": "c"}\n')
        assert spark_jobs.spout(spark, stage.manifest, "lines", rows, **settings).wait(120)
    assert sorted(bolt.values) == [b"a", b"a", b"b", b"c"], "rows do not land again"
    assert len(stage.records(stage.source)) == 4
    assert len(stage.dead_letters()) == 1, "the row without a word"


@pytest.mark.exhaustive
def test_a_landing_that_fails_ends_the_spout(spark: SparkSession, bootstrap_servers: str, tmp_path: Path) -> None:
    stage = SpoutStage(bootstrap_servers, tmp_path)
    rate = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
    rows = rate.select(F.raise_error(F.lit("out of rows")).cast("string").alias("line"))
    running = spark_jobs.spout(
        spark, stage.manifest, "lines", rows, kafka=stage.kafka, checkpoint=str(stage.checkpoint)
    )
    with pytest.raises(Exception, match="out of rows"):
        eventually(lambda: running.wait(1), "the end of the spout")


def test_rows_that_a_job_emits_become_trees_and_others_when_it_runs_again(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path
) -> None:
    stage = Stage(
        bootstrap_servers, manifest_of(topology_name(), lines=declare({"line": str}), ack_partitions=3), tmp_path
    )
    source, rows = tmp_path / "source", ["one", "two", "one", "three", "one"]
    source.mkdir()
    (source / "lines.txt").write_text("\n".join(rows))
    written: list[spark_jobs.BatchResult] = []

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
    assert len(roots) == written[0].rows == written[0].tuples == 5
    assert not stage.outcome().acked
    forget_commit(stage.checkpoint)
    run()
    both = stage.anchored("split")
    assert len(both) == 10
    assert both > roots
    assert not stage.outcome().acked
    stage.ack_received("split")
    assert stage.outcome().acked == both


@pytest.mark.exhaustive
def test_a_paused_topology_delivers_nothing_also_after_a_restart(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path
) -> None:
    stage = SpoutStage(bootstrap_servers, tmp_path, spout_manifest())
    catalogue = Catalogue(stage.kafka)
    name = stage.manifest.topology
    with stage.played(lambda _root, payload: "never" if payload == b"line 3" else None) as bolt:
        running = stage.start(spark)
        stage.feed(lines(10))
        eventually(lambda: running.outcomes.acked == 9 and running.outcomes.failed > 1, "outcomes, and replays")
        catalogue.set_control(name, Control("paused"))
        eventually(lambda: running.outcomes.control == "paused" and not running.outcomes.outstanding, "the pause")
        delivered = len(bolt.deliveries)
        stage.feed(lines(20)[10:])
        stop(running)
        running = stage.start(spark)
        eventually(lambda: running.outcomes.control == "paused", "the requested state")
        eventually(lambda: (stage.checkpoint / "offsets" / "1").exists(), "a micro-batch that waits")
        shown = running.outcomes.stats()
        assert (shown["control"], shown["retrying"]) == (["paused"], 1)
        assert len(bolt.deliveries) == delivered
        catalogue.set_control(name, Control("running"))
        eventually(lambda: running.outcomes.acked == 10, "the new messages acked")
        eventually(lambda: len(bolt.deliveries) > delivered + 10, "the failed message delivered again")
        stop(running)

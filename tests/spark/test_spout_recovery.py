"""A Spark spout that is stopped, killed or left alone: every message is acked in the end."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession

import spark_jobs
from spark_jobs.outcomes import Outcomes
from spark_jobs.spout import spout
from spark_jobs.spout_batch import Found
from tests.kafka.sdk_rig import headers_of, value
from tests.spark.test_spout_stage import PARTITIONS, PlayedBolt, SpoutStage, await_done, lines, spout_manifest
from tests.waiting import eventually
from tuple_tree.anchors import unpack_anchors
from tuple_tree.codec import decode_ack_batch, encode_notice_batch
from tuple_tree.ids import Position, position_of, positional_root
from tuple_tree.messages import NoticeBatch
from tuple_tree.names import acks_topic, component_group, notices_topic
from tuple_tree.streams import declare


def test_a_restart_delivers_nothing_twice(spark: SparkSession, bootstrap_servers: str, tmp_path: Path) -> None:
    stage = SpoutStage(bootstrap_servers, tmp_path, spout_manifest(max_pending=360))
    stage.produce(lines(1_200))
    running = stage.start(spark)
    # Nobody acks, so it waits for room; and it hears of the stop while it waits.
    eventually(lambda: len(stage.received()) == 360, "as many tuples as may be open")
    running.stop()
    assert running.wait(30)
    assert stage.committed() == dict.fromkeys(range(PARTITIONS), 0)

    def judge(root: int, payload: bytes) -> str | None:
        return "once" if payload == b"line 11" and not position_of(root).attempt else None

    with stage, PlayedBolt(stage, judge) as bolt:
        # Some outcomes come while no spout is there.
        eventually(lambda: len(bolt.deliveries) == 360, "the tuples of the first run")
        running = stage.start(spark)
        await_done(stage, running)
        running.stop()
        assert running.wait(30)
    assert Counter(bolt.values) == Counter([*lines(1_200), b"line 11"])
    assert bolt.attempts()[2, 3] == [0, 1]
    assert running.outcomes.ignored == 0


def test_a_stop_while_it_waits_for_room_is_no_failure(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits, reserve = threading.Event(), Outcomes.reserve

    def watched(self: Outcomes, found: Iterable[Found], mark: Callable[[], int], stopping: Callable[[], bool]) -> int:
        def asked() -> bool:
            waits.set()
            return stopping()

        return reserve(self, found, mark, asked)

    # Only who waits for room asks whether to stop.
    monkeypatch.setattr(Outcomes, "reserve", watched)
    stage = SpoutStage(bootstrap_servers, tmp_path, spout_manifest(max_pending=360))
    stage.produce(lines(600))
    running = stage.start(spark)
    eventually(waits.is_set, "a micro-batch to wait for room")
    running.stop()
    assert running.wait(30)
    assert running.query.exception() is None, "Spark would have logged it with two stack traces"
    assert len(stage.received()) == 360


def test_a_micro_batch_that_is_run_again_writes_the_same(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path
) -> None:
    stage = SpoutStage(bootstrap_servers, tmp_path)
    topology = stage.manifest.topology
    stage.produce(lines(500))
    running = stage.start(spark)
    eventually(lambda: len(stage.received()) == 500 and running.written(0), "the first micro-batch")
    running.stop()
    assert running.wait(30)
    stage.forget_commit()

    with stage:
        running = stage.start(spark)
        eventually(lambda: len(stage.received()) == 1_000 and running.written(0), "the micro-batch again")
        edges = Counter(
            pair for record in stage.received() for pair in unpack_anchors(headers_of(record)["anchors"]).items()
        )
        assert set(edges.values()) == {2}, "the same roots and edges, twice"
        written = [decode_ack_batch(value(record)) for record in stage.cluster.records(acks_topic(topology))]
        # In any order: what a batch says does not depend on it, and Spark's shuffle does not keep it.
        said = Counter(
            (
                batch.session,
                batch.sequence,
                frozenset(zip(batch.init_roots.tolist(), batch.init_vals.tolist(), strict=True)),
            )
            for batch in written
            if len(batch)
        )
        assert set(said.values()) == {2}, "the same batches, twice"
        assert {sequence for _, sequence, _ in said} == {1}
        with PlayedBolt(stage) as bolt:
            # Both copies of a tuple are acked, at any two times: trees that this leaves open are replayed.
            eventually(lambda: len(bolt.deliveries) >= 1_000, "both copies")
            eventually(lambda: stage.acker.stats.duplicate_batches >= PARTITIONS, "repeats to be dropped")
            running.stop()
            assert running.wait(30)
    assert {position_of(root).attempt for root, _ in bolt.deliveries} == {0}


def test_what_a_repeated_micro_batch_leaves_open_is_replayed(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path
) -> None:
    stage = SpoutStage(bootstrap_servers, tmp_path, spout_manifest(timeout_ms=2_000, max_tree_age_ms=60_000))
    stage.produce(lines(200))
    running = stage.start(spark)
    eventually(lambda: len(stage.received()) == 200 and running.written(0), "the first micro-batch")
    running.stop()
    assert running.wait(30)
    stage.forget_commit()
    with stage, PlayedBolt(stage) as bolt:
        running = stage.start(spark)
        await_done(stage, running)
        running.stop()
        assert running.wait(30)
    assert set(bolt.values) == set(lines(200)), "every message, some of them more than once"
    assert stage.committed() == stage.ends()


def test_what_nobody_hears_of_is_lost_and_replayed(spark: SparkSession, bootstrap_servers: str, tmp_path: Path) -> None:
    manifest = spout_manifest(timeout_ms=1_000, max_tree_age_ms=2_000)
    stage = SpoutStage(bootstrap_servers, tmp_path, manifest)
    stage.produce(lines(20))
    running = stage.start(spark, retry_limit=30)
    # There is no acker yet.
    eventually(lambda: running.outcomes.lost >= 20 and len(stage.received()) >= 40, "trees to be lost")
    with stage, PlayedBolt(stage) as bolt:
        await_done(stage, running)
        running.stop()
        assert running.wait(30)
    assert set(bolt.values) == set(lines(20))
    assert all({0, 1} <= set(attempts) for attempts in bolt.attempts().values())
    assert not stage.dead_letters()


def test_without_a_checkpoint_it_goes_on_from_the_group(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path
) -> None:
    stage = SpoutStage(bootstrap_servers, tmp_path)
    stage.produce(lines(30))
    with stage, PlayedBolt(stage) as bolt:
        stage.drain(spark)
        stage.produce(lines(30, start=30))
        stage.checkpoint = tmp_path / "another"
        stage.drain(spark)
    assert sorted(bolt.values) == sorted(lines(60)), "nothing twice"


def test_latest_begins_at_the_end(spark: SparkSession, bootstrap_servers: str, tmp_path: Path) -> None:
    stage = SpoutStage(bootstrap_servers, tmp_path)
    stage.produce(lines(9))
    with stage, PlayedBolt(stage) as bolt:
        stage.drain(spark, starting_offsets="latest")
        assert stage.committed() == {0: 3, 1: 3, 2: 3}
        stage.produce(lines(9, start=9))
        stage.drain(spark, starting_offsets="latest")
    assert sorted(bolt.values) == sorted(lines(9, start=9))


def test_offsets_without_a_message_hold_nothing_up(spark: SparkSession, bootstrap_servers: str, tmp_path: Path) -> None:
    stage = SpoutStage(bootstrap_servers, tmp_path)
    stage.kafka["isolation.level"] = "read_committed"
    producer = Producer({"bootstrap.servers": bootstrap_servers, "log_level": 2, "transactional.id": stage.source})
    producer.init_transactions()
    for number, line in enumerate(lines(12)):
        # Each transaction leaves a marker in the log, and those that are aborted leave messages that nobody may read.
        producer.begin_transaction()
        producer.produce(stage.source, line, partition=0)
        producer.flush()
        if number % 4 == 3:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    running = stage.start(spark)
    eventually(lambda: len(stage.received()) == 9 and running.written(0), "what was committed")
    running.stop()
    assert running.wait(30)
    with stage, PlayedBolt(stage) as bolt:
        running = stage.start(spark)
        eventually(lambda: stage.committed()[0] == 21, "the offset behind the last message, before its marker")
        running.stop()
        assert running.wait(30)
    assert sorted(bolt.values) == sorted(line for number, line in enumerate(lines(12)) if number % 4 != 3)


def test_notices_that_mean_nothing_are_kept_or_ignored(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path
) -> None:
    stage = SpoutStage(bootstrap_servers, tmp_path)
    stage.produce(lines(9))
    topic = notices_topic(stage.manifest.topology, "lines")
    with stage, PlayedBolt(stage):
        running = stage.start(spark)
        stage.cluster.produce(topic, 0, b"nonsense", [])
        stage.cluster.produce(topic, 0, encode_notice_batch(stranger()), [])
        await_done(stage, running)
        eventually(lambda: running.outcomes.ignored == 3, "notices of strangers")
        eventually(stage.dead_letters, "a dead letter")
        running.stop()
        assert running.wait(30)
    (letter,) = stage.dead_letters()
    assert letter.value() == b"nonsense"
    assert headers_of(letter)["dead-letter.reason"] == b"not-avro"


def stranger() -> NoticeBatch:
    roots = [positional_root(Position(0, 0, 0)), positional_root(Position(1, 99, 0)), 12345]
    return NoticeBatch(0, 0, acked_roots=np.array(roots, dtype=np.uint64))


def test_what_is_refused(spark: SparkSession, bootstrap_servers: str, tmp_path: Path) -> None:
    stage = SpoutStage(bootstrap_servers, tmp_path)

    def refused(
        error: type[Exception], says: str, name: str = "lines", source: str = stage.source, **more: object
    ) -> None:
        settings = {"kafka": stage.kafka, "checkpoint": str(stage.checkpoint), **more}
        with pytest.raises(error, match=says):
            spout(spark, stage.manifest, name, source, **settings)  # type: ignore[arg-type]

    refused(spark_jobs.ComponentRefusedError, "has no component 'nobody': it has other, lines, count", name="nobody")
    refused(spark_jobs.ComponentRefusedError, "'count' is a bolt of topology .*: name a spout", name="count")
    refused(spark_jobs.ComponentRefusedError, "retry_limit of spout 'lines' is 64: .* below 64", retry_limit=64)
    refused(spark_jobs.ComponentRefusedError, "say earliest or latest", starting_offsets="first")
    refused(spark_jobs.ComponentRefusedError, "max_rows of spout 'lines' is 0", max_rows=0)
    refused(spark_jobs.TopicsRefusedError, "source topic missing does not exist: create it", source="missing")
    refused(spark_jobs.TransformRefusedError, "'line' of stream 'default' not at all", fields={})
    assert not stage.checkpoint.exists()

    stage.manifest = spout_manifest(max_pending=5)
    SpoutStage(bootstrap_servers, tmp_path, stage.manifest)
    refused(spark_jobs.ComponentRefusedError, "max_spout_pending of 'lines' is 5, .* set it to 6 or more")
    stage.manifest = spout_manifest()
    refused(spark_jobs.TopicsRefusedError, "does not exist: acker topics create")


def test_checkpoints(spark: SparkSession, bootstrap_servers: str, tmp_path: Path) -> None:
    stage, other = (SpoutStage(bootstrap_servers, tmp_path) for _ in range(2))
    stage.produce(lines(3))
    with stage, PlayedBolt(stage):
        stage.drain(spark)
    with pytest.raises(spark_jobs.CheckpointRefusedError, match=f"belongs to .*{stage.manifest.topology}"):
        other.start(spark)
    other.source, mine = stage.source, stage.source
    stage.source = f"{stage.manifest.topology}.dead-letters"
    with pytest.raises(spark_jobs.CheckpointRefusedError, match=f"source {mine}, .* not to "):
        stage.start(spark)


def test_a_group_ahead_of_its_topic_is_refused(spark: SparkSession, bootstrap_servers: str, tmp_path: Path) -> None:
    stage = SpoutStage(bootstrap_servers, tmp_path)
    group = component_group(stage.manifest.topology, "lines")
    consumer = Consumer({**stage.kafka, "group.id": group})
    consumer.commit(offsets=[TopicPartition(stage.source, 0, 5)], asynchronous=False)
    consumer.close()
    with pytest.raises(spark_jobs.TopicsRefusedError, match="ends at 0, before the offset 5 up to which it was acked"):
        stage.start(spark)


def test_a_spout_has_one_stream(spark: SparkSession, bootstrap_servers: str, tmp_path: Path) -> None:
    manifest = spout_manifest()
    two = (declare("line"), declare("line", name="other"))
    lines_, *rest = (each for each in manifest.components if each.name == "lines")
    assert not rest
    others = tuple(each for each in manifest.components if each.name != "lines")
    changed = manifest.model_copy(update={"components": (*others, lines_.model_copy(update={"streams": two}))})
    stage = SpoutStage(bootstrap_servers, tmp_path, changed)
    with pytest.raises(spark_jobs.ComponentRefusedError, match="has 2 streams: a Spark spout emits exactly one"):
        stage.start(spark)

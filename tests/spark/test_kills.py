"""Drivers and tasks of Spark killed at any moment: no tuple is lost, and no tree stays open.

Run as a module it is a driver, of a spout and of a bolt.
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import NewTopic
from pyspark import TaskContext
from pyspark.sql import SparkSession

import spark_jobs
from spark_jobs import bolts, delivering, inbox, packing
from spark_jobs.entries import KafkaSender, Record
from tests.kafka.sdk_rig import Cluster, in_threads, progress, value, write
from tests.spark import submitted
from tests.spark.conftest import SETTINGS
from tests.spark.rig import Stage, started, topology_name
from tests.spark.spout_rig import SpoutStage, await_done, lines, spout_manifest
from tests.spark.submitted import outcomes_topic, source_topic, words
from tests.spark.test_bolt import explode, limited
from tests.spark.topologies import manifest_of
from tests.topics import create_topics
from tests.waiting import eventually
from tuple_tree.names import component_group

pytestmark = pytest.mark.exhaustive

KILLS = 2
_KILLED = "SPARK_TEST_KILLED"
"""When a driver of a bolt kills itself: `before` write 2, `within` it, or `never`."""
MESSAGES = 2_000


@contextmanager
def driver(servers: str, checkpoints: Path) -> Iterator["subprocess.Popen[bytes]"]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with (
        (checkpoints / "drivers.log").open("ab") as log,
        started(__name__, servers, str(checkpoints), env=environment, stdout=log, stderr=log) as process,
    ):
        yield process


# Each driver starts a Spark of its own.
@pytest.mark.timeout(1500)
def test_killed_drivers_lose_no_tuple(bootstrap_servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = random.SystemRandom().getrandbits(32)
    rng = random.Random(seed)
    monkeypatch.setenv(submitted.NAME, topology_name())
    # Longer than a few micro-batches take on a busy machine, or every tree would time out and be replayed.
    monkeypatch.setenv("SPARK_TEST_TIMEOUT", "40")
    built = words(outcomes_topic())
    cluster = Cluster(bootstrap_servers, built.manifest)
    cluster.create_topics()
    create_topics(cluster.bootstrap, [NewTopic(source_topic(), 2, 1), NewTopic(outcomes_topic(), 2, 1)])
    write(cluster.bootstrap, source_topic(), [f"a{number} b{number}" for number in range(MESSAGES)], 2)

    spout = component_group(built.name, "lines")

    def check_outcomes() -> None:
        """Each message that is committed as done has an outcome, and each outcome is an ack."""
        committed = progress(cluster.bootstrap, spout, source_topic())
        written = [json.loads(value(record)) for record in cluster.records(outcomes_topic())]
        assert {each["outcome"] for each in written} <= {"acked"}
        named = {(each["partition"], each["offset"]) for each in written}
        done = {(number, offset) for number, (end, _) in committed.items() for offset in range(end)}
        assert done <= named, f"seed {seed}"

    with in_threads(built, cluster.bootstrap, ("count",)) as sdk:

        def await_progress(process: "subprocess.Popen[bytes]", words: int, what: str) -> None:
            eventually(
                lambda: process.poll() is not None or sdk.stats["count"].executed >= words, f"{what}, seed {seed}", 300
            )
            assert process.poll() is None, "the driver ended by itself"

        for kill in range(KILLS):
            after = sdk.stats["count"].executed + rng.randrange(1, 600)
            with driver(bootstrap_servers, tmp_path) as process:
                await_progress(process, after, f"word {after} before kill {kill}")
            check_outcomes()
        with driver(bootstrap_servers, tmp_path) as process:
            done = dict.fromkeys(range(2), (MESSAGES // 2, MESSAGES // 2))
            eventually(
                lambda: process.poll() is not None or progress(cluster.bootstrap, spout, source_topic()) == done,
                f"all messages to be acked, seed {seed}",
                300,
            )
            assert process.poll() is None, "the driver ended by itself"
            os.kill(process.pid, signal.SIGTERM)
            assert process.wait(60) == 0
    check_outcomes()
    expected = {f"{letter}{number}" for letter in "ab" for number in range(MESSAGES)}
    assert sdk.stats["count"].counters.keys() == expected, f"seed {seed}"


@dataclass(frozen=True)
class CutOff:
    """Replaces a function that sends records, and kills its process in the first attempt of a task.

    The process dies when half of the records of call number `calls` are sent. With a directory, in which each kill
    leaves a file, at most five are.
    """

    whole: Any
    calls: int = 0
    kills: Path | None = None

    def __call__(self, *given: Any) -> Any:
        calls = count()

        def send(records: Sequence[Record]) -> None:
            task = TaskContext.get()
            assert task is not None
            is_killed = next(calls) == self.calls and not task.attemptNumber()
            if not is_killed or (self.kills is not None and len(list(self.kills.iterdir())) >= 5):
                sender(records)
                return
            sender(records[: len(records) // 2])
            if self.kills is not None:
                (self.kills / str(os.getpid())).touch()
            os.kill(os.getpid(), signal.SIGKILL)

        (sender,) = (each for each in given if isinstance(each, KafkaSender))
        return self.whole(*(send if each is sender else each for each in given))


@pytest.mark.parametrize("write", ["pack", "ack_unreported"])
def test_tasks_of_each_write_of_a_bolt_are_killed(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    """Tasks read the inputs a second time, and ack them, where a `limit` has ended the first reading."""
    whole: dict[str, Any] = {"pack": packing.pack, "ack_unreported": inbox.ack_unreported}
    monkeypatch.setattr(bolts, write, CutOff(whole[write]))
    stage = Stage(bootstrap_servers, manifest_of(topology_name(), ack_partitions=3), tmp_path)
    roots = stage.send([(f"a{number} b{number} c{number}",) for number in range(10_000)])
    if write == "ack_unreported":
        stage.drain(spark, limited)
        stage.ack_received()
        assert stage.outcome().acked == set(roots), "write 2 is the same in each attempt"
        return
    stage.drain(spark, explode)
    assert not stage.outcome().acked, "no child was processed"
    stage.ack_received()
    # What the first attempt of write 1 has left may keep trees open, and completes none.
    words = Counter(word for (word,) in stage.values())
    assert words.keys() == {f"{letter}{number}" for letter in "abc" for number in range(10_000)}


def test_tasks_of_a_spout_are_killed(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their inits are in the log without tuples, or with some: the messages are replayed, and each is processed.

    The second attempt cannot help: its inits are ignored. So a tree completes only where a first attempt is whole.
    """
    kills = tmp_path / "kills"
    kills.mkdir()
    monkeypatch.setattr(delivering, "deliver", CutOff(delivering.deliver, 1, kills))
    stage = SpoutStage(bootstrap_servers, tmp_path, spout_manifest(timeout_ms=2_000, max_tree_age_ms=60_000))
    messages = lines(600)
    stage.feed(messages)
    with stage.played() as bolt:
        running = stage.start(spark, retry_limit=30)
        await_done(stage, running)
        running.stop()
        assert running.wait(30)
    # Both tasks of the first micro-batch; how many replays that takes depends on what they had written.
    assert len(list(kills.iterdir())) >= 2
    assert set(bolt.values) == set(messages)
    assert not stage.dead_letters()


@pytest.mark.timeout(1500)
def test_ten_kills_between_the_writes_of_a_bolt_and_one_within_the_second(
    bootstrap_servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(bootstrap_servers, manifest_of(topology_name(), ack_partitions=3), tmp_path)
    monkeypatch.setenv(submitted.NAME, stage.manifest.topology)
    roots = set(stage.send([(f"a{number} b{number}",) for number in range(500)]))
    for kill in range(11):
        monkeypatch.setenv(_KILLED, "before" if kill < 10 else "within")
        with driver(bootstrap_servers, tmp_path) as process:
            assert process.wait(120) == -signal.SIGKILL
        copies = Counter(word for (word,) in stage.values())
        assert set(copies.values()) == {kill + 1}, "write 1 was whole"
        assert not stage.outcome().acked, "the children of the last driver were not processed"
        stage.ack_received()
        if kill < 10:
            assert not stage.outcome().acked, "write 2 had not begun"
    some = stage.outcome().acked
    assert set() < some < roots, "those whose acks were sent"
    monkeypatch.setenv(_KILLED, "never")
    with driver(bootstrap_servers, tmp_path) as process:
        assert process.wait(120) == 0
    assert stage.outcome().acked == some, "the children of the last driver were not processed"
    stage.ack_received()
    assert stage.outcome().acked == roots, "acks that are sent again count once"


def bolt_alone(servers: str, checkpoints: str, killed: str) -> None:
    """A driver of a bolt, which may kill itself and its Java in its first micro-batch."""
    spark = spark_jobs.session("killed", "local[2]", SETTINGS)
    module: Any = bolts
    send_reported_acks = module.send_reported_acks

    def acking(*given: Any) -> int:
        send, reads = given

        def half(records: Sequence[Record]) -> None:
            if killed == "within":
                send(records[: len(records) // 2])
            os.killpg(os.getpgrp(), signal.SIGKILL)

        sent: int = send_reported_acks(send if killed == "never" else half, reads)
        return sent

    module.send_reported_acks = acking
    manifest = manifest_of(os.environ[submitted.NAME], ack_partitions=3)
    kafka, checkpoint = {"bootstrap.servers": servers}, f"{checkpoints}/split"
    trigger = {"availableNow": True}
    running = spark_jobs.bolt(spark, manifest, "split", explode, kafka=kafka, checkpoint=checkpoint, trigger=trigger)
    assert running.wait(100)
    spark.stop()


def main() -> None:
    servers, checkpoints = sys.argv[1:]
    if _KILLED in os.environ:
        bolt_alone(servers, checkpoints, os.environ[_KILLED])
        return
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    spark = spark_jobs.session("killed", "local[2]", SETTINGS)
    built, kafka = words(outcomes_topic()), {"bootstrap.servers": servers}
    running = [
        spark_jobs.bolt(spark, built, "split", explode, kafka=kafka, checkpoint=f"{checkpoints}/split"),
        spark_jobs.spout(spark, built, "lines", source_topic(), kafka=kafka, checkpoint=f"{checkpoints}/lines"),
    ]
    while not stopping.is_set():
        if any(each.wait(0.5) for each in running):
            sys.exit("a component ended by itself")
    for each in running:
        each.stop()
        assert each.wait(60)
    spark.stop()


if __name__ == "__main__":
    main()

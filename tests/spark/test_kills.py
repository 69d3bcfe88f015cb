"""Drivers and tasks of Spark killed at any moment: nothing is lost, and nothing stays open.

Run as a module it is a driver, of a spout and of a bolt.
"""

import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic
from pyspark import TaskContext
from pyspark.sql import SparkSession

import spark_jobs
from tests.kafka.sdk_rig import Cluster, in_threads, progress, write
from tests.spark import submitted
from tests.spark.conftest import SETTINGS
from tests.spark.rig import Stage, pairs_of, topology_name
from tests.spark.submitted import source_topic, words
from tests.spark.test_bolt import explode
from tests.spark.topologies import manifest_of
from tests.topics import create_topics
from tests.waiting import eventually
from tuple_tree.names import component_group, tuples_topic

pytestmark = pytest.mark.exhaustive

KILLS = 2
MESSAGES = 2_000


@contextmanager
def driver(servers: str, checkpoints: Path) -> Iterator["subprocess.Popen[bytes]"]:
    with (
        (checkpoints / "drivers.log").open("ab") as log,
        subprocess.Popen(
            [sys.executable, "-m", __name__, servers, str(checkpoints)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # Spark's Java process goes with it.
            start_new_session=True,
        ) as process,
    ):
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


# Each driver starts a Spark of its own.
@pytest.mark.timeout(1500)
def test_killed_drivers_lose_nothing(bootstrap_servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = random.SystemRandom().getrandbits(32)
    rng = random.Random(seed)
    monkeypatch.setenv(submitted.NAME, topology_name())
    # Longer than a few micro-batches take on a busy machine, or every tree would time out and be replayed.
    monkeypatch.setenv("SPARK_TEST_TIMEOUT", "40")
    built = words()
    cluster = Cluster(bootstrap_servers, built.manifest)
    cluster.create_topics()
    create_topics(cluster.bootstrap, [NewTopic(source_topic(), 2, 1)])
    write(cluster.bootstrap, source_topic(), [f"a{number} b{number}" for number in range(MESSAGES)], 2)

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
        with driver(bootstrap_servers, tmp_path) as process:
            spout = component_group(built.name, "lines")
            done = dict.fromkeys(range(2), (MESSAGES // 2, MESSAGES // 2))
            eventually(
                lambda: process.poll() is not None or progress(cluster.bootstrap, spout, source_topic()) == done,
                f"all messages to be acked, seed {seed}",
                300,
            )
            assert process.poll() is None, "the driver ended by itself"
            os.kill(process.pid, signal.SIGTERM)
            assert process.wait(60) == 0
    expected = {f"{letter}{number}" for letter in "ab" for number in range(MESSAGES)}
    assert sdk.stats["count"].counters.keys() == expected, f"seed {seed}"


def test_a_write_that_is_cut_off_is_made_again(spark: SparkSession, bootstrap_servers: str, tmp_path: Path) -> None:
    """Tasks are killed once some of their tuples lie in the inbox of the receiver, and Spark starts them again."""
    stage = Stage(bootstrap_servers, manifest_of(topology_name(), ack_partitions=3), tmp_path)
    roots = stage.send([(f"a{number} b{number} c{number}",) for number in range(30_000)])
    since = next_task(spark)
    running = stage.start(spark, explode, trigger={"availableNow": True})
    eventually(lambda: sum(end for _, end in stage.progress("count").values()), "its write to begin")
    killed = kill_running_tasks(spark, since)
    assert running.wait(120)
    edges = Counter(
        pair for record in stage.records(tuples_topic(stage.manifest.topology, "count")) for pair in pairs_of(record)
    )
    assert edges.total() > 3 * len(roots), f"the {killed} tasks that were killed had written nothing"
    assert not stage.outcome().acked
    stage.ack_received()
    assert stage.outcome().acked == set(roots)


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


def main() -> None:
    servers, checkpoints = sys.argv[1:]
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    spark = spark_jobs.session("killed", "local[2]", SETTINGS)
    built, kafka = words(), {"bootstrap.servers": servers}
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

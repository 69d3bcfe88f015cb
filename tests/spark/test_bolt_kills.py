"""The driver of a Spark bolt killed again and again: nothing is lost, and nothing stays open.

Run as a module it is that driver, which kills itself, so that a moment can be hit exactly.
"""

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import spark_jobs
from benchmarks import words
from spark_jobs.running_query import BatchRunner
from tests.spark.conftest import SETTINGS
from tests.spark.mixed_stage import MixedStage, mixed_stage
from tests.spark.mixed_topologies import BEGUN, COMPLETE
from tests.waiting import eventually
from tuple_tree.manifest import Manifest

WRITTEN = 5
AT_RANDOM = 5
NEVER = "never"


def moments(rng: random.Random) -> list[str]:
    """When the drivers die.

    `written 2` is in the third micro-batch, after its write and before Spark notes its end. `start 0.7` and
    `batch 0.7` are that many seconds after the query was started, and after its first micro-batch began: before its
    session is open, amid a write, or between any two steps.
    """
    written = [f"written {rng.randrange(3)}" for _ in range(WRITTEN)]
    at_random = [f"{rng.choice(['start', 'batch'])} {rng.uniform(0, 3):.3f}" for _ in range(AT_RANDOM)]
    chosen = [*written, *at_random]
    rng.shuffle(chosen)
    return chosen


@contextmanager
def driver(stage: MixedStage, moment: str) -> Iterator["subprocess.Popen[bytes]"]:
    servers, manifest = stage.kafka["bootstrap.servers"], stage.directory / "manifest.json"
    with (stage.directory / "driver.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, servers, str(manifest), str(stage.directory / "checkpoint"), moment],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # Spark's Java process goes with it.
            start_new_session=True,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_ten_killed_drivers_lose_nothing(bootstrap_servers: str, tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    chosen = moments(random.Random(seed))
    said = f"seed {seed}: {', '.join(chosen)}"
    with mixed_stage("spark_in_the_middle", bootstrap_servers, tmp_path, timeout=8, max_pending=300) as stage:
        manifest = stage.topology.manifest
        (tmp_path / "manifest.json").write_bytes(manifest.to_json())
        for moment in chosen:
            with driver(stage, moment) as process:
                eventually(lambda: stage.check() or process.poll() is not None, f"{moment!r}, {said}", 90)
                log = (tmp_path / "driver.log").read_text()
                assert process.returncode == -signal.SIGKILL, f"it ended by itself at {moment!r}, {said}\n{log}"
        with driver(stage, NEVER) as process:
            stage.end_fresh()
            stage.await_complete(said, 90)
            os.kill(process.pid, signal.SIGTERM)
            assert eventually(lambda: process.poll() is not None, "the last driver to stop")
            assert process.returncode == 0, (tmp_path / "driver.log").read_text()
        stage.close()
        spout, ackers = stage.spout, stage.ackers
    assert spout.counters[COMPLETE] == spout.counters[BEGUN] == spout.acked, said
    assert spout.emitted == spout.acked + sum(spout.failed.values()), "each tree had one outcome"
    stage.assert_all_counted(spout.counters[BEGUN], said)
    assert ackers.pending == 0, said
    # Each driver after the first opens the session again; that alone would be as many repeats.
    openings = len(chosen) * manifest.ack_partitions
    assert ackers.duplicate_batches >= openings + WRITTEN, f"what was written again was not dropped, {said}"


def die() -> None:
    os.killpg(os.getpgid(0), signal.SIGKILL)


def die_at(moment: str) -> None:
    """Arranges for the death of this process."""
    when, _, number = moment.partition(" ")
    run, batches = BatchRunner.__call__, 0

    def called(self: BatchRunner, records: Any, batch_id: int) -> None:
        nonlocal batches
        if when == "batch" and not batches:
            threading.Timer(float(number), die).start()
        run(self, records, batch_id)
        if when == "written" and batches == int(number):
            die()
        batches += 1

    BatchRunner.__call__ = called  # type: ignore[method-assign]
    if when == "start":
        threading.Timer(float(number), die).start()


def main() -> None:
    servers, manifest, checkpoint, moment = sys.argv[1:]
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    spark = spark_jobs.session("killed", "local[2]", SETTINGS)
    spark.sparkContext.setLogLevel("ERROR")
    die_at(moment)
    running = spark_jobs.bolt(
        spark,
        Manifest.from_json(Path(manifest).read_bytes()),
        "split",
        words.explode,
        kafka={"bootstrap.servers": servers},
        checkpoint=checkpoint,
    )
    while not stopping.is_set():
        if running.wait(1):
            sys.exit("the bolt ended by itself")
    running.stop()
    assert running.wait(60)
    spark.stop()


if __name__ == "__main__":
    main()

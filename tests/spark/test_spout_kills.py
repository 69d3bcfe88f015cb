"""The driver of a Spark spout killed at any moment: nothing is lost, and nothing stays open.

Run as a module it is that driver.
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

import spark_jobs
from spark_jobs.spout import spout
from tests.spark.conftest import SETTINGS
from tests.spark.test_spout_stage import PlayedBolt, SpoutStage, lines, spout_manifest
from tests.waiting import eventually
from tuple_tree.manifest import Manifest

KILLS = 3
MESSAGES = 3_000


@contextmanager
def driver(stage: SpoutStage, manifest: Path) -> Iterator["subprocess.Popen[bytes]"]:
    servers = stage.kafka["bootstrap.servers"]
    with subprocess.Popen(
        [sys.executable, "-m", __name__, servers, str(manifest), stage.source, str(stage.checkpoint)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # Spark's Java process goes with it.
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def await_tuples(bolt: PlayedBolt, process: "subprocess.Popen[bytes]", count: int, what: str) -> None:
    eventually(lambda: process.poll() is not None or len(bolt.deliveries) >= count, what)
    assert process.poll() is None, "the driver ended by itself"


def test_killed_drivers_lose_nothing(bootstrap_servers: str, tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    manifest = spout_manifest(timeout_ms=4_000, max_tree_age_ms=12_000, max_pending=600)
    stage = SpoutStage(bootstrap_servers, tmp_path, manifest)
    file = tmp_path / "manifest.json"
    file.write_bytes(manifest.to_json())
    stage.produce(lines(MESSAGES))
    with stage, PlayedBolt(stage) as bolt:
        for kill in range(KILLS):
            after = rng.randrange(1, 400)
            with driver(stage, file) as process:
                await_tuples(bolt, process, len(bolt.deliveries) + after, f"{after} of driver {kill}, seed {seed}")
        with driver(stage, file) as process:
            eventually(
                lambda: process.poll() is not None or stage.committed() == stage.ends(), f"the end, seed {seed}", 150
            )
            assert process.poll() is None, "the driver ended by itself"
            os.kill(process.pid, signal.SIGTERM)
            assert process.wait(60) == 0
    assert set(bolt.values) == set(lines(MESSAGES)), f"seed {seed}"
    assert stage.committed() == stage.ends()
    assert not stage.dead_letters()


def main() -> None:
    servers, manifest, source, checkpoint = sys.argv[1:]
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    spark = spark_jobs.session("killed", "local[2]", SETTINGS)
    running = spout(
        spark,
        Manifest.from_json(Path(manifest).read_bytes()),
        "lines",
        source,
        kafka={"bootstrap.servers": servers},
        checkpoint=checkpoint,
    )
    while not stopping.is_set():
        if running.wait(1):
            sys.exit("the spout ended by itself")
    running.stop()
    assert running.wait(60)
    spark.stop()


if __name__ == "__main__":
    main()

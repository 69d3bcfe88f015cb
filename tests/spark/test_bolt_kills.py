"""The driver of a Spark bolt killed again and again: nothing is lost, and nothing stays open.

Run as a module it is that driver, which kills itself, so that a moment can be hit exactly.
"""

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import spark_jobs
from benchmarks import words
from spark_jobs.running_query import BatchRunner
from tests.kafka.sdk_rig import value
from tests.spark.conftest import SETTINGS
from tests.spark.mixed_stage import MixedStage, mixed_stage
from tests.spark.mixed_topologies import BEGUN, COMPLETE
from tests.waiting import eventually
from tuple_tree.codec import decode_ack_batch
from tuple_tree.manifest import Manifest
from tuple_tree.names import acks_topic

NEVER = "never"

Staged = Callable[[float], AbstractContextManager[MixedStage]]


def moments(rng: random.Random, written: int, at_random: int) -> list[str]:
    """When the drivers die.

    `written 2` is in the third micro-batch, after its write and before Spark notes its end. `start 0.7` and
    `batch 0.7` are that many seconds after the query was started, and after its first micro-batch began: before its
    session is open, amid a write, or between any two steps.
    """
    chosen = [f"written {rng.randrange(3)}" for _ in range(written)]
    chosen += [f"{rng.choice(['start', 'batch'])} {rng.uniform(0, 3):.3f}" for _ in range(at_random)]
    rng.shuffle(chosen)
    return chosen


@contextmanager
def driver(stage: MixedStage) -> Iterator["subprocess.Popen[str]"]:
    """A process that starts the bolt when it is told the moment of its death."""
    servers, manifest = stage.kafka["bootstrap.servers"], stage.directory / "manifest.json"
    with (stage.directory / "driver.log").open("a") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, servers, str(manifest), str(stage.directory / "checkpoint")],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            text=True,
            # Spark's Java process goes with it.
            start_new_session=True,
        )
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def go(process: "subprocess.Popen[str]", moment: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{moment}\n")
    process.stdin.close()


def await_death(stage: MixedStage, process: "subprocess.Popen[str]", what: str) -> None:
    eventually(lambda: stage.check() or process.poll() is not None, f"the death of a driver: {what}", 90)
    log = (stage.directory / "driver.log").read_text()
    assert process.returncode == -signal.SIGKILL, f"it ended by itself: {what}\n{log}"


def last(stage: MixedStage, kind: str) -> int:
    """The last micro-batch that stands in a part of the checkpoint: `offsets` if planned, `commits` if done; or -1."""
    files = (stage.directory / "checkpoint" / kind).glob("*")
    return max((int(file.name) for file in files if file.name.isdigit()), default=-1)


def finish(stage: MixedStage, process: "subprocess.Popen[str]", what: str) -> None:
    """Lets all trees complete, no matter how many, and stops everything."""
    stage.allow(0)
    stage.await_complete(1, what, 90)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0, (stage.directory / "driver.log").read_text()
    stage.close()
    spout = stage.spout
    assert spout.counters[COMPLETE] == spout.counters[BEGUN] == spout.acked, what
    assert spout.emitted == spout.acked + sum(spout.failed.values()), f"each tree had one outcome, {what}"
    stage.assert_all_counted(spout.counters[BEGUN], what)
    assert stage.ackers.pending == 0, what


def repeats_of(stage: MixedStage) -> tuple[int, int]:
    """How many batches of acks lie in the log again: those that open a session, and others."""
    last: dict[tuple[int | None, str, bytes], int] = {}
    openings = others = 0
    for record in stage.cluster.records(acks_topic(stage.topology.name)):
        batch = decode_ack_batch(value(record))
        writer = (record.partition(), batch.writer, batch.session)
        if batch.sequence <= last.get(writer, -1):
            openings, others = openings + batch.opens, others + (not batch.opens)
        last[writer] = max(batch.sequence, last.get(writer, -1))
    return openings, others


@pytest.fixture
def staged(bootstrap_servers: str, tmp_path: Path) -> Staged:
    """Gives a stage whose trees time out after so many seconds, and whose spout emits for ever."""

    @contextmanager
    def staged(timeout: float) -> Iterator[MixedStage]:
        with mixed_stage("spark_in_the_middle", bootstrap_servers, tmp_path, timeout=timeout, max_pending=300) as stage:
            (tmp_path / "manifest.json").write_bytes(stage.topology.manifest.to_json())
            stage.allow(1_000_000)
            yield stage

    return staged


# Ten in all: each driver has a Java process of its own, so ten in a row take minutes on two cores.
@pytest.mark.parametrize(("written", "at_random"), [(3, 2), (2, 3)])
def test_killed_drivers_lose_nothing(staged: Staged, written: int, at_random: int) -> None:
    seed = random.randrange(2**32)
    chosen = moments(random.Random(seed), written, at_random)
    said = f"seed {seed}: {', '.join(chosen)}"
    with staged(8) as stage, ExitStack() as drivers:
        upcoming = drivers.enter_context(driver(stage))
        for moment in chosen:
            # The next one makes its Spark session meanwhile, which takes longer than all the rest.
            process, upcoming = upcoming, drivers.enter_context(driver(stage))
            go(process, moment)
            await_death(stage, process, f"{moment!r} of {said}")
        planned = last(stage, "offsets")
        go(upcoming, NEVER)
        # Otherwise it might be told to stop before it has done again what the others left: a stop drops what waits.
        eventually(
            lambda: stage.check() or upcoming.poll() is not None or last(stage, "commits") >= planned,
            f"what was begun to be done again, {said}",
            90,
        )
        finish(stage, upcoming, said)
    openings, others = repeats_of(stage)
    assert others >= written, f"the log has no repeats, {said}"
    assert stage.ackers.duplicate_batches == openings + others, said


def test_what_is_written_again_leaves_no_tree_open(staged: Staged) -> None:
    # Longer than the test, so no replay makes up for anything.
    with staged(600) as stage, driver(stage) as killed, driver(stage) as process:
        go(killed, "written 1")
        await_death(stage, killed, "the first of two")
        # What it wrote is through, and those trees are complete, before any of it is there twice.
        written = stage.edges("count")
        eventually(lambda: stage.check() or stage.processed("count") == written.total(), "the SDK bolt to be through")
        complete = len({root for root, _ in written})
        eventually(lambda: stage.check() or stage.ackers.trees_acked == complete, f"{complete} trees to complete")
        go(process, NEVER)
        eventually(lambda: stage.check() or stage.received("count") > 2 * written.total(), "much more to be written")
        finish(stage, process, "nothing timed out")
    repeated = {anchor: times for anchor, times in stage.edges("count").items() if times > 1}
    assert repeated
    assert set(repeated.values()) == {2}
    assert stage.spout.failed == {}
    assert stage.spout.emitted == stage.spout.counters[BEGUN]
    partitions = stage.topology.manifest.ack_partitions
    batches = len({root % partitions for root, _ in repeated})
    openings, others = repeats_of(stage)
    assert (openings % partitions, others) == (0, batches), "the openings, and the batches of one micro-batch"
    assert stage.ackers.duplicate_batches == openings + others


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
    servers, manifest, checkpoint = sys.argv[1:]
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    spark = spark_jobs.session("killed", "local[2]", SETTINGS)
    spark.sparkContext.setLogLevel("ERROR")
    moment = sys.stdin.readline().strip()
    if not moment:
        return
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

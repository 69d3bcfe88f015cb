"""A spout of a topology under `acker spark submit`: the real command, Spark and Kafka, stopped in every way."""

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import spark_jobs
from spark_jobs.declared import declared
from spark_jobs.main import parsed, started
from spark_jobs.source import source_of
from tests.spark import submitted
from tests.spark.rig import topology_name
from tests.spark.test_spout_stage import PlayedBolt, SpoutStage, lines
from tests.unit.cli.running import RunningAcker, descendants, is_alive, running_acker
from tests.waiting import eventually

TOPOLOGY = f"{submitted.__name__}:topology"
HERE = Path(__file__).parents[2]
# Until a Spark has started on a machine with more to do, and has done its work.
SECONDS = 120
# What a driver says of a micro-batch.
LINE = re.compile(
    r"\.lines: batch \d+, [\d,]+ rows in, [\d,]+ rows/s, [\d,]+ unread, [\d,]+ outstanding, \d+ to be delivered again, "
    r"[\d,]+ tuples out, 0 dead letters, \d+\.\d\d s$",
    re.MULTILINE,
)


@pytest.fixture
def stage(bootstrap_servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SpoutStage:
    monkeypatch.setenv(submitted.NAME, topology_name())
    monkeypatch.setenv("SPARK_TEST_FILES", str(tmp_path / "files"))
    return SpoutStage(bootstrap_servers, tmp_path, submitted.topology().manifest)


@contextmanager
def submit(
    stage: SpoutStage, *arguments: str, component: str = "lines", spark: Mapping[str, str] | None = None
) -> Iterator[RunningAcker]:
    settings = {"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false", **(spark or {})}
    conf = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    with running_acker(
        "spark", "submit", TOPOLOGY, "--component", component, "--master", "local[2]", *arguments,
        "--checkpoint", str(stage.checkpoint), "--bootstrap-servers", stage.kafka["bootstrap.servers"],
        "--", *conf, "--driver-memory", "1g",
        cwd=HERE,
    ) as command:  # fmt: skip
        yield command


def await_while_it_runs(command: RunningAcker, condition: Callable[[], bool], what: str) -> None:
    eventually(lambda: command.process.poll() is not None or condition(), what, SECONDS)
    assert command.process.poll() is None, command.said


def test_a_topic_is_a_spout(stage: SpoutStage) -> None:
    stage.produce(lines(1_000))
    with stage, PlayedBolt(stage) as bolt:
        with submit(stage, "--max-rows", "200") as command:
            await_while_it_runs(command, lambda: len(bolt.deliveries) > 300, "some micro-batches")
            assert command.end(signal.SIGTERM) == 0, command.said
        assert LINE.search(command.said), command.said
        assert "Traceback" not in command.said, command.said
        assert "\tat " not in command.said, command.said
        stage.produce(lines(100, start=1_000))
        with submit(stage) as command:
            await_while_it_runs(command, lambda: len(bolt.deliveries) >= 1_100, "all lines")
            await_while_it_runs(command, lambda: stage.committed() == stage.ends(), "every tree to be done")
            assert command.end(signal.SIGINT) == 130, command.said
        assert "Traceback" not in command.said, command.said
    assert Counter(bolt.values) == Counter(lines(1_100)), "a clean stop delivers nothing twice"


def test_a_spout_that_waits_for_room_ends_cleanly(stage: SpoutStage) -> None:
    stage.produce(lines(3_000))
    # Nobody acks: two micro-batches are all that may be open, and the third one has begun.
    with submit(stage) as command:
        await_while_it_runs(command, lambda: (stage.checkpoint / "offsets" / "2").exists(), "three micro-batches")
        assert command.end(signal.SIGTERM) == 0, command.said
    assert not re.search("Traceback|\tat |ERROR", command.said), command.said
    # Half of what may be open each, a third of that from each partition.
    assert len(stage.received()) == 2 * 3 * 333


def test_a_driver_ends_with_the_killed_command(stage: SpoutStage) -> None:
    stage.produce(lines(1_000))
    with stage, PlayedBolt(stage) as bolt:
        with submit(stage, "--max-rows", "200") as command:
            await_while_it_runs(command, lambda: len(bolt.deliveries) > 300, "some micro-batches")
            family = descendants(command.process.pid)
            assert len(family) > 1, "Java and the driver"
            command.process.kill()
            eventually(lambda: not any(map(is_alive, family)), "Java and the driver to end")
        eventually(lambda: "whoever submitted this is gone: stopping" in command.said, "the driver's last words")
        assert "Traceback" not in command.said, command.said
        with submit(stage, "--available-now") as command:
            assert command.ended(SECONDS) == 0, command.said
    assert Counter(bolt.values) == Counter(lines(1_000)), "it ended as by SIGTERM"
    assert stage.committed() == stage.ends()


# Java starts it instead of Python: the driver begins when the command is gone, or Java is, which is its child.
LATE = """#!{python}
import os, sys, threading

def parent(pid):
    with open(f"/proc/{{pid}}/stat") as stat:
        return int(stat.read().rpartition(")")[2].split()[1])

def waits():
    try:
        with open(f"/proc/{{parent(os.getppid())}}/cmdline") as line:
            return "acker_cli" in line.read()
    except OSError:
        return False

pause = threading.Event()
while waits():
    pause.wait(0.05)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_command_that_ends_before_its_driver_begins(
    stage: SpoutStage, tmp_path: Path, number: signal.Signals
) -> None:
    late = tmp_path / "late"
    late.write_text(LATE.format(python=sys.executable))
    late.chmod(0o755)
    with submit(stage, spark={"spark.pyspark.driver.python": str(late)}) as command:
        command.wait_until(lambda: bool(descendants(command.process.pid)), "Java to start")
        # The first of them leads the group of all that follow.
        group = min(descendants(command.process.pid))
        assert command.end(number) == (0 if number == signal.SIGTERM else -signal.SIGKILL)
        eventually(lambda: not members(group), "everything to end")
    assert not stage.checkpoint.exists()


def members(group: int) -> list[int]:
    """The processes of a group that are alive."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _parent, its_group = path.read_text().rpartition(")")[2].split()[:3]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(its_group) == group and state != "Z":
            found.append(int(path.parent.name))
    return found


@pytest.mark.parametrize(
    ("component", "says"),
    [
        ("nobody", "has no component 'nobody'"),
        ("other", "'other' is run by acker run: add it with external=True"),
        ("two_arguments", "of spout 'two_arguments' cannot be called with the Spark session alone"),
    ],
)
def test_what_is_refused_before_spark_starts(stage: SpoutStage, component: str, says: str) -> None:
    with submit(stage, component=component) as command:
        assert command.ended() == 1
    assert says in command.said
    assert command.said.count("\n") == 1, command.said
    assert command.said.startswith("acker: ")


def test_what_the_driver_refuses(stage: SpoutStage) -> None:
    with submit(stage, component="nonsense") as command:
        assert command.ended(SECONDS) == 1
    assert "the lines above say why" in command.said
    said = "acker: the source of spout 'nonsense' returns a list: have it return the name of a topic, "
    assert [line for line in command.out if line.startswith(said)], command.said
    assert "Traceback" not in command.said, command.said


def test_settings_that_belong_to_the_code(spark: SparkSession, stage: SpoutStage) -> None:
    stage.produce(lines(100))
    with stage, PlayedBolt(stage) as bolt:
        run_here(spark, stage, "shouted")
    assert Counter(bolt.values) == Counter(line.upper() for line in lines(100))


def test_a_data_frame_as_a_source(spark: SparkSession, stage: SpoutStage, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "one.txt").write_bytes(b"\n".join(lines(50)))
    with stage, PlayedBolt(stage) as bolt:
        run_here(spark, stage, "files")
    assert Counter(bolt.values) == Counter(lines(50))


def run_here(spark: SparkSession, stage: SpoutStage, component: str) -> None:
    """Runs a spout as the driver does, in the session of the tests."""
    given = ["--topology", TOPOLOGY, "--component", component, "--checkpoint", str(stage.checkpoint), "--available-now"]
    assert started(spark, submitted.topology(), parsed(given), stage.kafka).wait(120)


def test_sources_that_make_no_sense(spark: SparkSession) -> None:
    def broken(_spark: SparkSession) -> str:
        raise RuntimeError("no such table\nand a page of Java")

    for source, says in (
        (submitted.nonsense, "returns a list: have it return the name of a topic"),
        (lambda _spark: spark_jobs.Source(None), "returns a Source of a NoneType"),  # type: ignore[arg-type]
        (lambda _spark: "two words", "reads no topic: topic name 'two words' cannot be used"),
        (broken, "'lines' raised RuntimeError: no such table; correct the function"),
    ):
        with pytest.raises(spark_jobs.ComponentRefusedError, match=says):
            source_of(spark, "lines", source)
    assert source_of(spark, "lines", "a-topic") == spark_jobs.Source("a-topic")


def test_what_is_declared_for_spark(stage: SpoutStage) -> None:
    topology = submitted.topology()
    component, code = declared(topology, "lines")
    assert (component.name, code) == ("lines", submitted.source_topic())
    assert declared(topology, "shouted")[1] is submitted.shouted
    for name, says in (("nobody", "name one of these"), ("other", "external=True"), ("two_arguments", "one argument")):
        with pytest.raises(spark_jobs.ComponentRefusedError, match=says):
            declared(topology, name)


def test_such_a_topology_is_imported_without_pyspark() -> None:
    code = "import sys; sys.modules['pyspark'] = None; from tests.spark.submitted import topology; topology()"
    environment = {**os.environ, submitted.NAME: "without-pyspark"}
    subprocess.run([sys.executable, "-c", code], cwd=HERE, env=environment, check=True, timeout=60)

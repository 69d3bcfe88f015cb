"""`acker spark submit`: the real command, Spark and Kafka."""

import importlib
import os
import re
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from spout_sdk import Topology
from tests.kafka.sdk_rig import Cluster, in_threads
from tests.spark import submitted
from tests.spark.rig import topology_name
from tests.spark.spout_rig import SpoutStage, lines
from tests.unit.cli.running import RunningAcker, descendants, is_alive, running_acker
from tests.waiting import eventually

# A script, which the type checker sees under another name.
word_count: Any = importlib.import_module("examples.spark_word_count")

HERE = Path(__file__).parents[2]
# Until a Spark has started on a loaded machine, and has done its work.
SECONDS = 200
# What a driver logs about a micro-batch.
BOLT_LINE = re.compile(
    r"\.split: batch \d+, [\d,]+ rows in, [\d,]+ rows/s, [\d,]+ unread, [\d,]+ tuples out, [\d,]+ acks, 0 failed, "
)
SPOUT_LINE = re.compile(
    r"\.lines: batch \d+, [\d,]+ rows in, [\d,]+ rows/s, [\d,]+ unread, [\d,]+ outstanding, \d+ to be delivered again, "
    r"[\d,]+ tuples out, 0 dead letters, \d+\.\d\d s$",
    re.MULTILINE,
)


def example() -> Topology:
    """The example under a name of its own; loaded by the driver as well."""
    topology = word_count.topology()
    manifest = topology.manifest.model_copy(update={"topology": os.environ[submitted.NAME]})
    return Topology(manifest, topology.factories)


@contextmanager
def submit(
    reference: str, component: str, checkpoint: Path, servers: str, *arguments: str, **spark: str
) -> Iterator[RunningAcker]:
    settings = {"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false", **spark}
    conf = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    with running_acker(
        "spark", "submit", reference, "--component", component, "--master", "local[2]", *arguments,
        "--checkpoint", str(checkpoint), "--bootstrap-servers", servers, "--", *conf, "--driver-memory", "1g",
        cwd=HERE,
    ) as command:  # fmt: skip
        yield command


def await_while_it_runs(command: RunningAcker, condition: Callable[[], bool], what: str) -> None:
    eventually(lambda: command.process.poll() is not None or condition(), what, SECONDS)
    assert command.process.poll() is None, command.output


@pytest.mark.exhaustive
def test_a_bolt_between_components_of_the_sdk(
    bootstrap_servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(submitted.NAME, topology_name())
    topology = example()
    cluster = Cluster(bootstrap_servers, topology.manifest)
    cluster.create_topics()
    checkpoint = tmp_path / "checkpoint"
    with ExitStack() as stack:
        command = stack.enter_context(submit(f"{__name__}:example", "split", checkpoint, bootstrap_servers))
        # What is emitted before a Spark has started on a loaded machine may time out.
        await_while_it_runs(command, (checkpoint / "metadata").exists, "the query to start")
        sdk = stack.enter_context(in_threads(topology, cluster.bootstrap, ("count", "lines")))
        await_while_it_runs(command, lambda: sdk.stats["lines"].acked >= word_count.LINES, "all lines to be acked")
        eventually(lambda: sdk.stats["count"].executed >= word_count.WORDS.total(), "all words to be counted")
        assert command.end(signal.SIGTERM) == 0, command.output
    counted = Counter({word: sdk.stats["count"].counters[word] for word in word_count.WORDS})
    # A line that timed out on a machine with more to do is emitted again.
    assert counted == word_count.WORDS or (sdk.stats["lines"].failed and counted > word_count.WORDS)
    assert BOLT_LINE.search(command.output), command.output
    assert "Traceback" not in command.output, command.output


@pytest.fixture
def stage(bootstrap_servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SpoutStage:
    monkeypatch.setenv(submitted.NAME, topology_name())
    return SpoutStage(bootstrap_servers, tmp_path, submitted.topology().manifest)


@contextmanager
def spout_of(stage: SpoutStage, *arguments: str, component: str = "lines", **spark: str) -> Iterator[RunningAcker]:
    reference, servers = f"{submitted.__name__}:topology", stage.kafka["bootstrap.servers"]
    with submit(reference, component, stage.checkpoint, servers, *arguments, **spark) as command:
        yield command


@pytest.mark.exhaustive
def test_a_driver_ends_with_the_killed_command(stage: SpoutStage) -> None:
    stage.feed(lines(1_000))
    with stage.played() as bolt:
        with spout_of(stage, "--max-rows", "200") as command:
            await_while_it_runs(command, lambda: len(bolt.deliveries) > 300, "some micro-batches")
            family = descendants(command.process.pid)
            assert len(family) > 1, "Java and the driver"
            command.process.kill()
            eventually(lambda: not any(map(is_alive, family)), "Java and the driver to end")
        gone = "the process that started this one has ended: stopping"
        eventually(lambda: gone in command.output, "the driver's last line")
        assert SPOUT_LINE.search(command.output), command.output
        assert not re.search("Traceback|\tat ", command.output), command.output
        with spout_of(stage, "--available-now") as command:
            assert command.ended(SECONDS) == 0, command.output
    assert Counter(bolt.values) == Counter(lines(1_000)), "it ended as by SIGTERM"
    assert stage.committed() == stage.ends()


@pytest.mark.exhaustive
def test_ctrl_c_ends_a_spout_that_waits_for_room(stage: SpoutStage) -> None:
    stage.feed(lines(3_000))
    # Nothing is acked: two micro-batches are all that may be open, and the third one has begun.
    with spout_of(stage, component="upper_case_source") as command:
        await_while_it_runs(command, lambda: (stage.checkpoint / "offsets" / "2").exists(), "three micro-batches")
        assert command.end(signal.SIGINT) == 130, command.output
    assert not re.search("Traceback|\tat |ERROR", command.output), command.output
    # Half of what may be open each, a third of that from each partition.
    assert len(stage.received()) == 2 * 3 * 333

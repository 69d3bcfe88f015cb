"""Commands on a cluster: topics, workers, components."""

import json
import signal
import time
import uuid
from pathlib import Path

import pytest

from acker_worker.catalogue import Catalogue
from tests.unit.cli.running import Acker, Run, one_line, run_acker, running_acker
from tuple_tree.names import acks_topic

_MODULE = """
from collections import deque
from spout_sdk import BasicBolt, Spout, TopologyBuilder, declare

class Numbers(Spout):
    streams = [declare({{"number": int}})]

    def open(self, context, collector):
        self.collector, self.todo = collector, deque(range(500))

    def next_tuple(self):
        if self.todo:
            number = self.todo.popleft()
            self.collector.emit((number,), message_id=number)

    def fail(self, message_id, reason):
        self.todo.append(message_id)

class Sink(BasicBolt):
    def execute(self, tuple_, collector):
        pass

builder = TopologyBuilder({name!r}, message_timeout={timeout})
builder.set_spout("numbers", Numbers)
builder.set_bolt("sink", Sink, tasks=2).shuffle_grouping("numbers")
topology = builder.build()
"""


@pytest.fixture
def topology(tmp_path: Path) -> str:
    """The name of a topology whose code lies in the working directory, as `my_module:topology`."""
    name = f"cli-{uuid.uuid4().hex[:8]}"
    (tmp_path / "my_module.py").write_text(_MODULE.format(name=name, timeout=300))
    return name


@pytest.fixture
def acker(tmp_path: Path, bootstrap_servers: str) -> Acker:
    def run(*arguments: str, servers: str = bootstrap_servers) -> Run:
        # Kafka's client alone waits for a minute for a broker that is not there.
        return run_acker(*arguments, "--bootstrap-servers", servers, cwd=tmp_path, seconds=45)

    return run


def only_line(run: Run) -> str:
    assert run.stdout == ""
    return one_line(run)


def test_topics_wait_for_as_many_brokers_as_copies(acker: Acker, topology: str) -> None:
    one = acker("topics", "create", "my_module:topology", "--wait", "30", "--set", "topics.replication_factor=1")
    assert one.returncode == 0, one.stderr
    began = time.monotonic()
    line = only_line(
        acker("topics", "create", "my_module:topology", "--wait", "2", "--set", "topics.replication_factor=500")
    )
    assert time.monotonic() - began >= 2
    assert "brokers needed: 500; found after 2 s: " in line
    line = only_line(acker("topics", "create", "my_module:topology", "--wait", "1", servers="127.0.0.1:1"))
    assert "brokers needed: 1; found after 1 s: " in line


def test_topics_are_created_once_and_shown(acker: Acker, topology: str, bootstrap_servers: str) -> None:
    missing = acker("topics", "show", "my_module:topology", "--json")
    assert missing.returncode == 1
    by_name = {row["name"]: row for row in json.loads(missing.stdout)["topics"]}
    assert by_name[acks_topic(topology)]["partitions"] is None
    assert "acker topics create" in by_name[acks_topic(topology)]["problems"][0]

    created = json.loads(acker("topics", "create", "my_module:topology", "--json").stdout)
    assert created["topology"] == topology
    assert acks_topic(topology) in created["created"]
    again = acker("topics", "create", "my_module:topology")
    assert again.returncode == 0
    assert f"exists  {acks_topic(topology)}  8 partitions\n" in again.stdout

    shown = acker("topics", "show", "my_module:topology", "--json")
    assert shown.returncode == 0
    rows = json.loads(shown.stdout)["topics"]
    assert {row["name"]: row["partitions"] for row in rows} == {
        "acker.topologies": 1,
        f"{topology}.acks": 8,
        f"{topology}.notices.numbers": 1,
        f"{topology}.tuples.sink": 2,
        f"{topology}.dead-letters": 1,
        f"{topology}.stats": 1,
    }
    assert not any(row["problems"] for row in rows)
    plain = acker("topics", "show", "my_module:topology").stdout
    assert f"{topology}.acks has 8 partitions\n" in plain
    assert Catalogue({"bootstrap.servers": bootstrap_servers}).manifest(topology).topology == topology


def test_a_worker_of_an_unknown_topology_says_so(acker: Acker) -> None:
    line = only_line(acker("worker", "--topology", "no-such-topology"))
    assert "no topology 'no-such-topology'" in line
    assert "acker topics create" in line


@pytest.mark.parametrize(
    "arguments",
    [
        ("worker", "--topology", "x"),
        ("run", "my_module:topology"),
        ("run", "my_module:topology", "--component", "sink"),
        ("topics", "create", "my_module:topology"),
        ("topics", "show", "my_module:topology"),
    ],
)
def test_a_broker_that_does_not_answer_is_one_line_in_bounded_time(
    acker: Acker, topology: str, arguments: tuple[str, ...]
) -> None:
    line = only_line(acker(*arguments, servers="127.0.0.1:1"))
    assert "127.0.0.1:1" in line
    assert "ACKER_KAFKA__BOOTSTRAP_SERVERS" in line


def test_a_demo_without_its_broker_ends_as_soon(acker: Acker) -> None:
    run = acker("demo", servers="127.0.0.1:1")
    assert run.returncode == 1
    assert run.stderr.count("\n") == 1, run.stderr
    assert "127.0.0.1:1" in run.stderr


def test_run_without_topics_says_how_to_create_them(acker: Acker, topology: str) -> None:
    assert "acker topics create MODULE:TOPOLOGY" in only_line(acker("run", "my_module:topology"))


def test_a_topology_runs_from_its_parts(acker: Acker, topology: str, tmp_path: Path, bootstrap_servers: str) -> None:
    """As in production: each component and the acker worker a command of its own, all stopped by SIGTERM."""
    assert acker("topics", "create", "my_module:topology").returncode == 0
    servers = ("--bootstrap-servers", bootstrap_servers)
    with (
        running_acker("worker", "--topology", topology, "--json", *servers, cwd=tmp_path) as worker,
        running_acker("run", "my_module:topology", "--component", "sink", *servers, cwd=tmp_path) as sink,
        running_acker("run", "my_module:topology", "--component", "numbers", *servers, cwd=tmp_path) as numbers,
    ):
        numbers.wait_for("acked 500,")
        worker.wait_until(
            lambda: any(json.loads(line)["trees_acked"] == 500 for line in list(worker.out)), "500 trees acked"
        )
        for command in (numbers, sink, worker):
            command.process.send_signal(signal.SIGTERM)
        for command in (numbers, sink, worker):
            assert command.ended(30) == 0, command.said
            assert "Traceback" not in command.said
    last = json.loads(worker.out[-1])
    assert (last["pending"], last["notices"]) == (0, 500)


def test_all_of_a_topology_with_ackers(acker: Acker, topology: str, tmp_path: Path, bootstrap_servers: str) -> None:
    assert acker("topics", "create", "my_module:topology").returncode == 0
    arguments = ("run", "my_module:topology", "--ackers", "2", "--processes", "sink=2")
    with running_acker(*arguments, "--bootstrap-servers", bootstrap_servers, cwd=tmp_path) as command:
        command.wait_for("acked 500,")
        assert command.end(signal.SIGINT) == 130
        assert "Traceback" not in command.said


def test_another_manifest_is_told_of(acker: Acker, topology: str, tmp_path: Path, bootstrap_servers: str) -> None:
    assert acker("topics", "create", "my_module:topology").returncode == 0
    # Of another length: Python takes what it compiled before for that of a file as long and as old, in seconds.
    (tmp_path / "my_module.py").write_text(_MODULE.format(name=topology, timeout=60))
    servers = ("--bootstrap-servers", bootstrap_servers)
    with running_acker("run", "my_module:topology", "--component", "sink", *servers, cwd=tmp_path) as command:
        command.wait_for("another manifest")


def test_a_misfit_of_topology_and_topics_is_one_line(
    acker: Acker, topology: str, tmp_path: Path, bootstrap_servers: str
) -> None:
    assert acker("topics", "create", "my_module:topology").returncode == 0
    module = tmp_path / "my_module.py"
    module.write_text(module.read_text().replace("tasks=2", "tasks=10"))  # of another length, as above
    assert "has 2 partitions, but the manifest says 10" in only_line(acker("topics", "create", "my_module:topology"))

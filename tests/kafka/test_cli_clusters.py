"""`acker topics`, `acker run` and `acker worker` on a cluster, and acker workers as child processes."""

import json
import logging
import signal
import threading
import uuid
from pathlib import Path

import pytest

from acker_cli.acker_pool import AckerPool
from acker_cli.acker_process import AckerLaunch
from acker_cli.errors import ProcessError
from acker_worker.catalogue import Catalogue
from tests.kafka.cli_rig import NO_BROKER, call_acker, parsed
from tests.unit.cli.running import Acker, Run, is_alive, one_line, running_acker
from tests.waiting import eventually
from tuple_tree.manifest import Manifest, SpoutManifest
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

def build(tasks=2, message_timeout=300):
    builder = TopologyBuilder({name!r}, message_timeout=message_timeout)
    builder.set_spout("numbers", Numbers)
    builder.set_bolt("sink", Sink, tasks=tasks).shuffle_grouping("numbers")
    return builder.build()

topology = build()
wide = build(tasks=10)
hasty = build(message_timeout=60)
"""


@pytest.fixture
def name() -> str:
    return f"cli-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def module(tmp_path: Path, name: str) -> str:
    """A module in the working directory; its name is new, for Python imports a module once."""
    module = f"module_{name.replace('-', '_')}"
    (tmp_path / f"{module}.py").write_text(_MODULE.format(name=name))
    return module


@pytest.fixture
def acker(tmp_path: Path, bootstrap_servers: str) -> Acker:
    def run(*arguments: str, servers: str = bootstrap_servers) -> Run:
        return call_acker(*arguments, servers=servers, cwd=tmp_path)

    return run


def test_topics_are_created_once_and_checked(acker: Acker, module: str, name: str, bootstrap_servers: str) -> None:
    topology = f"{module}:topology"
    missing = acker("topics", "show", topology, "--json")
    assert missing.returncode == 1
    by_name = {row["name"]: row for row in json.loads(missing.stdout)["topics"]}
    assert by_name[acks_topic(name)]["partitions"] is None
    assert "acker topics create" in by_name[acks_topic(name)]["problems"][0]
    assert "acker topics create MODULE:TOPOLOGY" in one_line(acker("run", topology))
    unknown = one_line(acker("worker", "--topology", "no-such-topology"))
    assert "no topology 'no-such-topology'" in unknown
    assert "acker topics create" in unknown

    too_many = ("--wait", "1", "--set", "topics.replication_factor=500")
    assert "brokers needed: 500; found after 1 s: " in one_line(acker("topics", "create", topology, *too_many))
    one_copy = ("--wait", "30", "--set", "topics.replication_factor=1")
    created = parsed(acker("topics", "create", topology, "--json", *one_copy))
    assert created["topology"] == name
    assert acks_topic(name) in created["created"]
    again = acker("topics", "create", topology)
    assert again.returncode == 0
    assert f"exists  {acks_topic(name)}  8 partitions\n" in again.stdout
    rows = parsed(acker("topics", "show", topology, "--json"))["topics"]
    assert {row["name"]: row["partitions"] for row in rows} == {
        "acker.topologies": 1,
        f"{name}.acks": 8,
        f"{name}.notices.numbers": 1,
        f"{name}.tuples.sink": 2,
        f"{name}.dead-letters": 1,
        f"{name}.stats": 1,
    }
    assert not any(row["problems"] for row in rows)
    assert f"{name}.acks has 8 partitions\n" in acker("topics", "show", topology).stdout
    catalogue = Catalogue({"bootstrap.servers": bootstrap_servers})
    assert catalogue.manifest(name).topology == name
    assert "has 2 partitions, but the manifest says 10" in one_line(acker("topics", "create", f"{module}:wide"))
    catalogue.withdraw(name)


@pytest.mark.exhaustive
def test_components_and_workers_are_commands_that_sigterm_stops(
    acker: Acker, module: str, name: str, tmp_path: Path, bootstrap_servers: str
) -> None:
    """As in production; one component has another manifest than the one that is published, and logs it."""
    assert acker("topics", "create", f"{module}:topology").returncode == 0
    servers = ("--bootstrap-servers", bootstrap_servers)
    with (
        running_acker("worker", "--topology", name, "--json", *servers, cwd=tmp_path) as worker,
        running_acker("run", f"{module}:hasty", "--component", "sink", *servers, cwd=tmp_path) as sink,
        running_acker("run", f"{module}:topology", "--component", "numbers", *servers, cwd=tmp_path) as numbers,
    ):
        sink.wait_for("another manifest")
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


def test_a_broker_that_does_not_answer_is_one_line(acker: Acker, module: str) -> None:
    create = ("topics", "create", f"{module}:topology", "--wait", "1")
    assert "brokers needed: 1; found after 1 s: " in one_line(acker(*create, servers=NO_BROKER))


def test_workers_that_cannot_start_say_why(bootstrap_servers: str) -> None:
    launch = AckerLaunch("no-such-topology", {"bootstrap.servers": bootstrap_servers}, {}, "error")

    def check_until_it_raises() -> None:
        while True:
            pool.check()
            pause.wait(0.05)

    pause = threading.Event()
    with AckerPool(launch, 2) as pool, pytest.raises(ProcessError, match="no topology 'no-such-topology'"):
        check_until_it_raises()


@pytest.mark.exhaustive
def test_a_worker_that_is_killed_gets_a_successor(
    bootstrap_servers: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    manifest = Manifest.of(topology=name, max_tree_age_ms=300_000, components=(SpoutManifest(name="lines"),))
    kafka = {"bootstrap.servers": bootstrap_servers, "session.timeout.ms": 6000, "log_level": 2}
    catalogue = Catalogue({"bootstrap.servers": bootstrap_servers})
    catalogue.create_topics(manifest)
    catalogue.publish(manifest)
    victim = 0

    def two_share_all() -> bool:
        pool.check()
        workers = pool.workers()
        owned = sum(worker.stats.partitions if worker.stats else 0 for worker in workers)
        return len(workers) == 2 and owned == 8 and victim not in {worker.pid for worker in workers}

    with AckerPool(AckerLaunch(name, kafka, {}, "error"), 2) as pool:
        eventually(two_share_all, "both workers share all partitions")
        before = {worker.pid for worker in pool.workers()}
        victim = next(worker.pid for worker in pool.workers() if worker.stats and worker.stats.partitions)
        with caplog.at_level(logging.ERROR):
            pool.kill(victim)
            eventually(two_share_all, "two workers share all partitions again")
        after = {worker.pid for worker in pool.workers()}
        assert len(before & after) == 1
        assert f"acker worker {victim} was killed by SIGKILL" in caplog.text
    assert not any(is_alive(pid) for pid in before | after)
    catalogue.withdraw(name)

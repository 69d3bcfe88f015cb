"""`acker topics`, `acker run` and `acker worker` on a cluster, and acker workers as child processes."""

import json
import threading
import uuid

import pytest

from acker_cli.acker_pool import AckerPool
from acker_cli.acker_process import AckerLaunch
from acker_cli.errors import ProcessError
from acker_worker.catalogue import Catalogue
from tests.kafka.cli_rig import NO_BROKER, call_acker, parsed
from tests.kafka.sdk_topologies import NAME
from tests.unit.cli.running import Acker, Run, one_line
from tuple_tree.names import acks_topic

TOPOLOGY = "tests.kafka.numbers_topology:topology"
WIDE = "tests.kafka.numbers_topology:wide"


@pytest.fixture
def name(monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"cli-{uuid.uuid4().hex[:8]}"
    monkeypatch.setenv(NAME, name)
    return name


@pytest.fixture
def acker(bootstrap_servers: str) -> Acker:
    def run(*arguments: str, servers: str = bootstrap_servers) -> Run:
        return call_acker(*arguments, servers=servers)

    return run


def test_topics_are_created_once_and_checked(acker: Acker, name: str, bootstrap_servers: str) -> None:
    missing = acker("topics", "show", TOPOLOGY, "--json")
    assert missing.returncode == 1
    by_name = {row["name"]: row for row in json.loads(missing.stdout)["topics"]}
    assert by_name[acks_topic(name)]["partitions"] is None
    assert "acker topics create" in by_name[acks_topic(name)]["problems"][0]
    assert "acker topics create MODULE:TOPOLOGY" in one_line(acker("run", TOPOLOGY))
    unknown = one_line(acker("worker", "--topology", "no-such-topology"))
    assert "no topology 'no-such-topology'" in unknown
    assert "acker topics create" in unknown

    too_many = ("--wait", "1", "--set", "topics.replication_factor=500")
    assert "brokers needed: 500; found after 1 s: " in one_line(acker("topics", "create", TOPOLOGY, *too_many))
    one_copy = ("--wait", "30", "--set", "topics.replication_factor=1")
    created = parsed(acker("topics", "create", TOPOLOGY, "--json", *one_copy))
    assert created["topology"] == name
    assert acks_topic(name) in created["created"]
    again = acker("topics", "create", TOPOLOGY)
    assert again.returncode == 0
    assert f"exists  {acks_topic(name)}  2 partitions\n" in again.stdout
    rows = parsed(acker("topics", "show", TOPOLOGY, "--json"))["topics"]
    assert {row["name"]: row["partitions"] for row in rows} == {
        "acker.topologies": 1,
        f"{name}.acks": 2,
        f"{name}.notices.numbers": 1,
        f"{name}.tuples.sink": 1,
        f"{name}.dead-letters": 1,
        f"{name}.stats": 1,
    }
    assert not any(row["problems"] for row in rows)
    assert f"{name}.acks has 2 partitions\n" in acker("topics", "show", TOPOLOGY).stdout
    catalogue = Catalogue({"bootstrap.servers": bootstrap_servers})
    assert catalogue.manifest(name).topology == name
    assert "has 1 partitions, but the manifest says 10" in one_line(acker("topics", "create", WIDE))
    catalogue.withdraw(name)
    nowhere = one_line(acker("topics", "create", TOPOLOGY, "--wait", "0.5", servers=NO_BROKER))
    assert "brokers needed: 1; found after 0.5 s: " in nowhere


@pytest.mark.exhaustive
@pytest.mark.usefixtures("name")
def test_a_broker_that_does_not_answer_is_one_line(acker: Acker) -> None:
    for command in (("topologies", "list"), ("run", TOPOLOGY), ("worker",)):
        said = one_line(acker(*command, servers=NO_BROKER))
        assert NO_BROKER in said
        assert "ACKER_KAFKA__BOOTSTRAP_SERVERS" in said


def test_workers_that_cannot_start_say_why(bootstrap_servers: str) -> None:
    launch = AckerLaunch("no-such-topology", {"bootstrap.servers": bootstrap_servers}, {}, "error")

    def check_until_it_raises() -> None:
        while True:
            pool.check()
            pause.wait(0.05)

    pause = threading.Event()
    with AckerPool(launch, 2) as pool, pytest.raises(ProcessError, match="no topology 'no-such-topology'"):
        check_until_it_raises()

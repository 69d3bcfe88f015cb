"""`acker topics`, `acker run` and `acker worker` on a cluster, and acker workers as child processes."""

import io
import json
import os
import threading
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import NewTopic
from rich.console import Console

from acker_cli.cluster.local import Feed, feeding
from acker_cli.errors import ProcessError
from acker_cli.processes.acker_pool import AckerPool
from acker_cli.processes.running import RunPlan, warned_without_ackers
from kafka_clients.catalogue import Catalogue
from spout_sdk import load_topology
from tests.chaos.components import NAME
from tests.kafka.sdk_rig import records, value
from tests.topics import create_topics
from tests.unit.cli.running import Acker, json_of, one_line
from tests.waiting import eventually
from tuple_tree.names import acker_group, acks_topic

NO_BROKER = "127.0.0.1:1"
TOPOLOGY = "tests.kafka.topologies:words"
OTHER = "tests.kafka.topologies:words_of_one_task"


@pytest.fixture
def name(monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"cli-{uuid.uuid4().hex[:8]}"
    monkeypatch.setenv(NAME, name)
    return name


def test_topics_are_created_once_and_checked(acker: Acker, name: str, bootstrap_servers: str) -> None:
    assert f"acker topics create {TOPOLOGY}" in one_line(acker("run", TOPOLOGY))
    unknown = one_line(acker("worker", "--topology", "no-such-topology"))
    assert "no topology 'no-such-topology'" in unknown
    assert "acker topics create" in unknown

    too_many = ("--wait", "1", "--set", "topics.replication_factor=500")
    assert "brokers needed: 500; found after 1 s: " in one_line(acker("topics", "create", TOPOLOGY, *too_many))
    one_copy = ("--wait", "30", "--set", "topics.replication_factor=1")
    created = json_of(acker("topics", "create", TOPOLOGY, "--json", *one_copy))
    assert created["topology"] == name
    assert acks_topic(name) in created["created"]
    again = acker("topics", "create", TOPOLOGY)
    assert again.returncode == 0
    assert f"exists  {acks_topic(name)}  3 partitions\n" in again.stdout
    catalogue = Catalogue({"bootstrap.servers": bootstrap_servers})
    assert {topic: count for topic, count in catalogue.topics().items() if topic.startswith(name)} == {
        f"{name}.acks": 3,
        f"{name}.notices.lines": 2,
        f"{name}.tuples.split": 2,
        f"{name}.tuples.count": 2,
        f"{name}.dead-letters": 1,
        f"{name}.stats": 1,
    }
    assert catalogue.manifest(name).topology == name
    refused = acker("topics", "create", OTHER, "--dry-run", "--json")
    assert refused.returncode == 1
    (step, *_) = json.loads(refused.stdout)["steps"]
    assert step["by"] == "refused"
    assert "'lines' has 1 task, and had 2" in step["text"]
    assert "was not changed: 'lines' has 1 task, and had 2" in one_line(acker("topics", "create", OTHER))
    catalogue.withdraw(name)
    assert "has 2 partitions, but the manifest has 1" in one_line(acker("topics", "create", OTHER))
    nowhere = one_line(acker("topics", "create", TOPOLOGY, "--wait", "0.5", servers=NO_BROKER))
    assert "brokers needed: 1; found after 0.5 s: " in nowhere


SHOP = """
import os
from spout_sdk import KafkaBolt, KafkaSpout, TopologyBuilder

name = os.environ["NAME_OF_SHOP"]
builder = TopologyBuilder(name)
builder.set_spout("orders", KafkaSpout(f"{name}-orders", outcomes=f"{name}-outcomes"))
builder.set_bolt("publish", lambda: KafkaBolt(f"{name}-published")).shuffle_grouping("orders")
topology = builder.build()
"""


def test_missing_sources_and_targets_are_created(
    acker: Acker, name: str, bootstrap_servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAME_OF_SHOP", name)
    (tmp_path / f"{name.replace('-', '_')}.py").write_text(SHOP)
    create = ("topics", "create", f"{name.replace('-', '_')}:topology")

    def known() -> dict[str, int]:
        topics = json_of(acker("kafka", "topics", "--json"))["topics"]
        return {topic: count for topic, count in topics.items() if topic.startswith(f"{name}-")}

    listed = acker("kafka", "topics", f"{name}-orders=2")
    assert (listed.returncode, listed.stdout) == (0, f"created  {name}-orders  2 partitions\n")
    assert f"missing  {name}-outcomes, which orders writes outcomes to" in acker(*create, cwd=tmp_path).stdout
    planned = json_of(acker(*create, "--create-sources", "3", "--dry-run", "--json", cwd=tmp_path))["steps"]
    step = f"create topic {name}-published, which publish writes to, with 3 partitions"
    assert step in [each["text"] for each in planned if each["by"] == "command"]
    assert known() == {f"{name}-orders": 2}
    created = json_of(acker(*create, "--create-sources", "3", "--json", cwd=tmp_path))["created"]
    assert sorted(created) == [f"{name}-outcomes", f"{name}-published"]
    # The topic that was there is as it was.
    assert known() == {f"{name}-orders": 2, f"{name}-outcomes": 3, f"{name}-published": 3}
    again = acker("kafka", "topics", f"{name}-orders=9")
    assert again.stdout == f"exists  {name}-orders  2 partitions\n"
    assert "TOPIC=PARTITIONS, such as orders=6" in one_line(acker("kafka", "topics", "orders"))


def test_workers_that_cannot_start_log_the_reason(bootstrap_servers: str) -> None:
    kafka = {"bootstrap.servers": bootstrap_servers}

    def check_until_it_raises() -> None:
        while True:
            pool.check()
            pause.wait(0.05)

    pause = threading.Event()
    with (
        AckerPool("no-such-topology", kafka, 2, log_level="error") as pool,
        pytest.raises(ProcessError, match="no topology 'no-such-topology'"),
    ):
        check_until_it_raises()


def test_a_topology_without_an_acker_worker_is_warned_of(
    name: str, bootstrap_servers: str, caplog: pytest.LogCaptureFixture
) -> None:
    kafka = {"bootstrap.servers": bootstrap_servers}
    manifest = load_topology(TOPOLOGY).manifest

    def warnings_logged() -> list[str]:
        """The warnings of the check for workers."""
        caplog.clear()
        with warned_without_ackers(kafka, manifest, after_s=0):
            eventually(lambda: all(thread.name != "acker-watch" for thread in threading.enumerate()), "the end")
        return [record.getMessage() for record in caplog.records if record.name == "acker_cli.processes.running"]

    (warning,) = warnings_logged()
    assert f"no acker worker is running for topology {name}" in warning
    assert f"Start one: acker worker --topology {name}, or add --ackers 1" in warning
    member = Consumer({**kafka, "group.id": acker_group(name)})
    try:
        member.subscribe(["acker.topologies"])
        eventually(lambda: member.poll(0.1) is None and bool(member.memberid()), "a member of the group")
        assert warnings_logged() == []
    finally:
        member.close()
    manifest = manifest.model_copy(update={"guarantee": "at_most_once"})
    assert warnings_logged() == []

    def needs_ackers(component: str | None, ackers: int) -> bool:
        return RunPlan.checked(load_topology(TOPOLOGY), TOPOLOGY, component, None, ackers).needs_ackers

    needed = [needs_ackers(*each) for each in ((None, 0), ("lines", 0), ("split", 0), (None, 1))]
    assert needed == [True, True, False, False], "only for processes that begin trees"


def test_lines_of_standard_input_become_messages(name: str, bootstrap_servers: str, tmp_path: Path) -> None:
    kafka = {"bootstrap.servers": bootstrap_servers}
    create_topics(kafka, [NewTopic(name, 1, 1)])
    (tmp_path / "input").write_bytes(b'{"n": 1}\r\n{"n": 2}\n\n{"n": 3}')
    output, before = io.StringIO(), os.dup(0)
    try:
        with (tmp_path / "input").open() as given:
            os.dup2(given.fileno(), 0)
        with feeding(kafka, [Feed(name, "-")], Console(file=output)):
            eventually(lambda: "fed" in output.getvalue(), "the end of the input")
    finally:
        os.dup2(before, 0)
        os.close(before)
    assert output.getvalue() == f"fed 4 messages into {name}\n"
    assert [value(each) for each in records(kafka, name)] == [b'{"n": 1}', b'{"n": 2}', b"", b'{"n": 3}']

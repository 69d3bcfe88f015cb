"""`acker topologies`: list, show, delete; and `acker worker` for all topologies."""

import json
import re
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from acker_cli import topology_removal
from acker_cli.topology_removal import Removal
from acker_worker.catalogue import Catalogue
from local_kafka import LocalKafka
from tests.kafka.ack_log import AckLog
from tests.kafka.cli_rig import call_acker, parsed
from tests.kafka.test_metrics import Endpoint
from tests.unit.cli.running import Acker, Run, one_line, running_acker
from tests.waiting import eventually
from tuple_tree.names import acker_group, component_group, tuples_topic


@pytest.fixture
def acker(bootstrap_servers: str) -> Acker:
    def run(*arguments: str, servers: str = bootstrap_servers) -> Run:
        return call_acker("topologies", *arguments, servers=servers)

    return run


@pytest.fixture
def log(bootstrap_servers: str) -> Iterator[AckLog]:
    with AckLog(bootstrap_servers, timeout_ms=120_000) as log:
        yield log
        log.catalogue.withdraw(log.topology)


def member_of(servers: str, log: AckLog) -> Consumer:
    """A member of the bolt's group, which commits nothing."""
    group = component_group(log.topology, "b")
    settings = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 2}
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, **settings})
    consumer.subscribe([tuples_topic(log.topology, "b")])
    eventually(lambda: consumer.poll(0.1) is None and consumer.assignment(), "the member to own its task")
    return consumer


def test_list_and_show_say_what_exists_and_what_waits(acker: Acker, log: AckLog) -> None:
    name = log.topology
    for root in range(2, 12, 2):
        log.say(root, init=5)
        log.flush()
    log.append_to(tuples_topic(name, "b"), 0, b"{}")
    (row,) = (row for row in parsed(acker("list", "--json"))["topologies"] if row["topology"] == name)
    assert row == {
        "topology": name,
        "guarantee": "at_least_once",
        "spouts": ["s"],
        "bolts": ["b"],
        "ack_partitions": 2,
        "missing_topics": [],
        "ackers": 0,
        "unread_acks": 5,
        "waiting": 1,
    }
    with log.worker():
        eventually(lambda: log.committed()[0][0] == 5, "the commit")
        shown = parsed(acker("show", name, "--json"))
        assert ", 1 acker\n" in acker("show", name).stdout
    assert (shown["topology"], shown["ackers"]) == (name, 1)
    assert [component["name"] for component in shown["components"]] == ["s", "b"]
    topics = {topic["name"]: topic for topic in shown["topics"]}
    assert set(topics) == {f"{name}.{each}" for each in ("acks", "notices.s", "tuples.b", "dead-letters", "stats")}
    acks = topics[log.topic]
    assert (acks["group"], acks["lag"], acks["problem"]) == (acker_group(name), 0, None)
    assert acks["partitions"][0] == {"partition": 0, "begin": 0, "end": 5, "committed": 5, "lag": 0}
    assert topics[f"{name}.tuples.b"]["lag"] == 1
    plain = acker("show", name).stdout
    assert f"topology {name}, at_least_once, 2 ack partitions, tick 0.2 s" in plain
    assert re.search(r"b +bolt +1 +0 +1 +s/default shuffle", plain)
    assert re.search(rf"{name} +at_least_once +1 +1 +2 +all 5 +0 +0 +1\s", acker("list").stdout)

    log.delete_topic(tuples_topic(name, "b"))
    missing = acker("show", name)
    assert missing.returncode == 1
    assert "does not exist" in missing.stdout
    (row,) = (row for row in parsed(acker("list", "--json"))["topologies"] if row["topology"] == name)
    assert row["missing_topics"] == [tuples_topic(name, "b")]


def test_a_topology_is_deleted_unless_it_runs(
    acker: Acker, log: AckLog, bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = log.topology
    catalogue = Catalogue(log.kafka)
    for command in ("show", "delete"):
        assert "no topology 'no-such'" in one_line(acker(command, "no-such"))
    assert "cannot be used" in one_line(acker("delete", "acker.topologies", "--yes"))
    asked = acker("delete", name)
    assert "--yes deletes without asking" in one_line(asked)
    assert f"  topic  {log.topic}, with all that is in it\n" in asked.stdout

    # With its topics kept it can be published again, and its open tree is still there.
    with log.worker():
        log.say(2, init=5)
        log.flush()
        eventually(lambda: log.committed()[0][0] == 1, "the commit")
    assert acker("delete", name, "--yes", "--keep-topics").returncode == 0
    assert name not in catalogue.manifests()
    catalogue.create_topics(log.manifest)
    catalogue.publish(log.manifest)
    with log.worker() as worker:
        eventually(lambda: worker.stats.pending == 1, "the tree")

    bolt = member_of(bootstrap_servers, log)
    try:
        refused = one_line(acker("delete", name, "--yes"))
        assert f"group {name}.b has 1 members" in refused
        assert "--force" in refused
        assert name in catalogue.manifests()
    finally:
        bolt.close()

    # The worker of this topology has to be stopped; the deletion ends half done, and is repeated.
    monkeypatch.setattr(topology_removal, "Removal", partial(Removal, let_go_s=0.5))
    with log.worker():
        stuck = one_line(acker("delete", name, "--yes"))
        assert f"Stop the acker workers that were started with --topology {name}" in stuck
        assert name not in catalogue.manifests()
        assert log.topic in catalogue.topics()
    done = parsed(acker("delete", name, "--yes", "--json"))
    assert (done["withdrawn"], done["left"]) == (False, [])
    assert log.topic in done["topics"]
    # A broker goes on showing a topic for a moment after it has confirmed the deletion.
    eventually(lambda: log.topic not in catalogue.topics(), "the topic is gone")


@pytest.mark.exhaustive
def test_a_forced_deletion_leaves_the_group_that_has_a_member(
    acker: Acker, log: AckLog, bootstrap_servers: str
) -> None:
    bolt = member_of(bootstrap_servers, log)
    try:
        forced = acker("delete", log.topology, "--yes", "--force")
        assert forced.returncode == 0, forced.stderr
        assert f"not deleted: group {log.topology}.b" in forced.stderr
        eventually(lambda: log.topic not in Catalogue(log.kafka).topics(), "the topic is gone")
    finally:
        bolt.close()


@pytest.mark.exhaustive
def test_a_worker_serves_what_is_published_until_it_is_deleted(acker: Acker, tmp_path: Path) -> None:
    """On a broker of its own: it serves every topology that it finds."""
    with LocalKafka() as kafka:
        servers = kafka.bootstrap_servers
        assert parsed(acker("list", "--json", servers=servers)) == {"topologies": []}
        assert acker("list", servers=servers).stdout == "no topologies in acker.topologies\n"
        arguments = ("worker", "--json", "--metrics-port", "0", "--bootstrap-servers", servers)
        with (
            AckLog(servers, timeout_ms=120_000) as log,
            running_acker(*arguments, cwd=tmp_path) as worker,
            AckLog(servers, timeout_ms=120_000) as late,
        ):
            both = {log.topology, late.topology}
            for topology in (log, late):
                topology.say(2, init=5)
                topology.say(2, ack=5)
                topology.flush()
                assert topology.await_notices([2])[2] == ["ack"]
            endpoint = Endpoint(worker)

            def shown(name: str) -> dict[str, float]:
                return endpoint.by_topology(name)

            eventually(lambda: shown("acker_notices_total") == dict.fromkeys(both, 1), "both in the metrics")
            assert shown("acker_serving") == dict.fromkeys(both, 1)
            endpoint.regains_health()

            deleted = acker("delete", late.topology, "--yes", servers=servers)
            assert deleted.returncode == 0, deleted.stderr
            assert "withdrawn from acker.topologies\n" in deleted.stdout
            assert f"deleted topic {late.topic}\n" in deleted.stdout
            worker.wait_for(f"acker worker of {late.topology} stopped, its partitions are released")
            eventually(lambda: shown("acker_serving") == {log.topology: 1}, "the metrics without it")
            log.say(4, init=5)
            log.say(4, ack=5)
            log.flush()
            assert log.await_notices([4])[4] == ["ack"]

            worker.process.send_signal(signal.SIGTERM)
            assert worker.ended() == 0
            assert "Traceback" not in worker.said
            lines = [json.loads(line) for line in worker.out]
            assert {line["topology"] for line in lines} == both
            assert [line for line in lines if line["topology"] == log.topology][-1]["notices"] == 2

"""`acker topologies`, and `acker worker` for all of them, as commands; on a broker of their own."""

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from acker_worker.catalogue import Catalogue
from local_kafka import LocalKafka
from tests.kafka.ack_log import AckLog
from tests.kafka.test_metrics import Endpoint
from tests.unit.cli.running import Acker, Run, one_line, run_acker, running_acker, said
from tests.waiting import eventually
from tuple_tree.names import acker_group, component_group, tuples_topic


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with LocalKafka() as kafka:
        yield kafka.bootstrap_servers


@pytest.fixture
def acker(tmp_path: Path, servers: str) -> Acker:
    def run(*arguments: str, servers: str = servers) -> Run:
        return run_acker(*arguments, "--bootstrap-servers", servers, cwd=tmp_path)

    return run


@pytest.fixture
def log(servers: str) -> Iterator[AckLog]:
    with AckLog(servers, timeout_ms=120_000) as log:
        yield log
        log.catalogue.withdraw(log.topology)


def names(acker: Acker) -> set[str]:
    return {row["topology"] for row in said(acker("topologies", "list", "--json"))["topologies"]}


def member_of(servers: str, log: AckLog) -> Consumer:
    """A process of the bolt, as the cluster sees it."""
    group = component_group(log.topology, "b")
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([tuples_topic(log.topology, "b")])
    eventually(lambda: consumer.poll(0.1) is None and consumer.assignment(), "the member to own its task")
    return consumer


def test_an_empty_cluster_has_none(acker: Acker) -> None:
    with LocalKafka() as kafka:
        assert said(acker("topologies", "list", "--json", servers=kafka.bootstrap_servers)) == {"topologies": []}
        plain = acker("topologies", "list", servers=kafka.bootstrap_servers)
        assert plain.stdout == "no topologies in acker.topologies\n"


def test_list_and_show_say_what_is_there_and_what_waits(acker: Acker, log: AckLog) -> None:
    for root in range(2, 12, 2):
        log.say(root, init=5)
        log.flush()
    log.append_to(tuples_topic(log.topology, "b"), 0, b"{}")
    (row,) = (
        row for row in said(acker("topologies", "list", "--json"))["topologies"] if row["topology"] == log.topology
    )
    assert row == {
        "topology": log.topology,
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
        shown = said(acker("topologies", "show", log.topology, "--json"))
        assert ", 1 acker\n" in acker("topologies", "show", log.topology).stdout
    assert shown["topology"] == log.topology
    assert shown["ackers"] == 1
    assert [component["name"] for component in shown["components"]] == ["s", "b"]
    topics = {topic["name"]: topic for topic in shown["topics"]}
    assert set(topics) == {
        f"{log.topology}.{name}" for name in ("acks", "notices.s", "tuples.b", "dead-letters", "stats")
    }
    acks = topics[log.topic]
    assert (acks["group"], acks["lag"], acks["problem"]) == (acker_group(log.topology), 0, None)
    assert acks["partitions"][0] == {"partition": 0, "begin": 0, "end": 5, "committed": 5, "lag": 0}
    assert topics[f"{log.topology}.tuples.b"]["lag"] == 1
    plain = acker("topologies", "show", log.topology).stdout
    assert f"topology {log.topology}, at_least_once, 2 ack partitions, tick 0.2 s" in plain
    assert re.search(r"b +bolt +1 +0 +1 +s/default shuffle", plain)
    listed = acker("topologies", "list").stdout
    assert re.search(rf"{log.topology} +at_least_once +1 +1 +2 +all 5 +0 +0 +1\s", listed)


def test_what_is_missing_is_told(acker: Acker, log: AckLog) -> None:
    log.delete_topic(tuples_topic(log.topology, "b"))
    shown = acker("topologies", "show", log.topology)
    assert shown.returncode == 1
    assert "does not exist" in shown.stdout
    (row,) = (
        row for row in said(acker("topologies", "list", "--json"))["topologies"] if row["topology"] == log.topology
    )
    assert row["missing_topics"] == [tuples_topic(log.topology, "b")]


def test_unknown_names_and_absent_brokers_are_one_line(acker: Acker) -> None:
    for command in ("show", "delete"):
        assert "no topology 'no-such'" in one_line(acker("topologies", command, "no-such"))
        assert "127.0.0.1:1" in one_line(acker("topologies", command, "no-such", servers="127.0.0.1:1"))
    assert "127.0.0.1:1" in one_line(acker("topologies", "list", servers="127.0.0.1:1"))
    assert "127.0.0.1:1" in one_line(acker("worker", servers="127.0.0.1:1"))


def test_a_deletion_asks_and_refuses_while_a_component_is_at_work(acker: Acker, log: AckLog, servers: str) -> None:
    asked = acker("topologies", "delete", log.topology)
    assert "--yes deletes without asking" in one_line(asked)
    assert f"  topic  {log.topic}, with all that is in it\n" in asked.stdout
    bolt = member_of(servers, log)
    try:
        refused = one_line(acker("topologies", "delete", log.topology, "--yes"))
        assert f"group {log.topology}.b has 1 members" in refused
        assert "--force" in refused
        assert log.topology in names(acker)
        forced = acker("topologies", "delete", log.topology, "--yes", "--force")
        assert forced.returncode == 0, forced.stderr
        assert f"not deleted: group {log.topology}.b" in forced.stderr
        assert log.topology not in names(acker)
        assert log.topic not in Catalogue(log.kafka).topics()
    finally:
        bolt.close()


def test_a_worker_of_this_topology_alone_has_to_be_stopped_first(acker: Acker, log: AckLog) -> None:
    """The deletion ends half done, and is repeated."""
    with log.worker():
        stuck = one_line(acker("topologies", "delete", log.topology, "--yes"))
        assert f"Stop the acker workers that were started with --topology {log.topology}" in stuck
        assert log.topology not in names(acker)
        assert log.topic in Catalogue(log.kafka).topics()
    done = said(acker("topologies", "delete", log.topology, "--yes", "--json"))
    assert (done["withdrawn"], done["left"]) == (False, [])
    assert log.topic in done["topics"]
    assert log.topic not in Catalogue(log.kafka).topics()


def test_with_keep_topics_it_can_be_published_again(acker: Acker, log: AckLog) -> None:
    with log.worker():
        log.say(2, init=5)
        log.flush()
        eventually(lambda: log.committed()[0][0] == 1, "the commit")
    kept = acker("topologies", "delete", log.topology, "--yes", "--keep-topics")
    assert kept.returncode == 0, kept.stderr
    assert log.topology not in names(acker)
    log.catalogue.create_topics(log.manifest)
    log.catalogue.publish(log.manifest)
    with log.worker() as worker:
        eventually(lambda: worker.stats.pending == 1, "the tree")


def test_a_worker_serves_what_comes_until_it_is_deleted(
    acker: Acker, log: AckLog, tmp_path: Path, servers: str
) -> None:
    arguments = ("worker", "--json", "--metrics-port", "0", "--bootstrap-servers", servers)
    with running_acker(*arguments, cwd=tmp_path) as worker, AckLog(servers, timeout_ms=120_000) as late:
        for topology in (log, late):
            topology.say(2, init=5)
            topology.say(2, ack=5)
            topology.flush()
            assert topology.await_notices([2])[2] == ["ack"]
        endpoint = Endpoint(worker)

        def shown(name: str) -> dict[str, float]:
            return endpoint.by_topology(name)

        eventually(lambda: shown("acker_notices_total") == {log.topology: 1, late.topology: 1}, "both in the metrics")
        assert shown("acker_serving") == {log.topology: 1, late.topology: 1}
        silences = {name for name in endpoint.samples() if name.startswith("acker_loop_silence_seconds")}
        of_topologies = {f"acker of {topology.topology}" for topology in (log, late)}
        assert silences == {f"acker_loop_silence_seconds{{loop={name}}}" for name in {"acker", *of_topologies}}
        endpoint.regains_health()

        deleted = acker("topologies", "delete", late.topology, "--yes")
        assert deleted.returncode == 0, deleted.stderr
        assert "withdrawn from acker.topologies\n" in deleted.stdout
        assert f"deleted topic {late.topic}\n" in deleted.stdout
        assert names(acker) == {log.topology}
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
        assert {line["topology"] for line in lines} == {log.topology, late.topology}
        assert [line for line in lines if line["topology"] == log.topology][-1]["notices"] == 2
    assert said(acker("topologies", "show", log.topology, "--json"))["ackers"] == 0


def test_ctrl_c_ends_it_as_it_does_everything(acker: Acker, tmp_path: Path, servers: str) -> None:
    with running_acker("worker", "--bootstrap-servers", servers, cwd=tmp_path) as worker:
        worker.wait_for("acker worker of all topologies started")
        worker.process.send_signal(signal.SIGINT)
        assert worker.ended() == 128 + signal.SIGINT


def test_a_name_that_no_topology_can_have_deletes_nothing(acker: Acker) -> None:
    assert "cannot be used" in one_line(acker("topologies", "delete", "acker.topologies", "--yes"))

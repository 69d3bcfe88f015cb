"""`acker doctor`: no finding on a healthy topology, and the findings on unhealthy ones."""

import json
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.kafka.ack_log import AckLog
from tests.kafka.sdk_rig import Use, in_threads
from tests.topics import create_topics
from tests.unit.cli.running import Acker, Run, call_acker
from tests.waiting import eventually
from tuple_tree.names import component_group, notices_topic, tuples_topic


@pytest.fixture
def doctor(bootstrap_servers: str) -> Acker:
    def run(*arguments: str, watch: str = "0.5", servers: str = bootstrap_servers) -> Run:
        return call_acker("doctor", *arguments, "--watch", watch, servers=servers)

    return run


def findings(run: Run, code: int) -> set[tuple[str, str, str]]:
    """Severity, check and subject of each finding."""
    assert run.returncode == code, run.stdout + run.stderr
    printed: dict[str, Any] = json.loads(run.stdout)
    assert printed["exit_code"] == code
    return {(each["severity"], each["check"], each["subject"]) for each in printed["findings"]}


# With exactly once, the markers of transactions are all that follows its last record.
@pytest.mark.parametrize("topology", ["endless", pytest.param("exactly_once", marks=pytest.mark.exhaustive)])
def test_a_running_topology_has_no_finding_but_that_of_its_failures(use: Use, doctor: Acker, topology: str) -> None:
    """Its bolt `split` fails one line in twelve."""
    source = use(topology)
    with in_threads(source.topology, source.bootstrap) as running:
        eventually(lambda: running.stats["lines"].acked, "trees to be acked")

        def is_right() -> bool:
            run = doctor(source.reference, "--json", "--strict", watch="2")
            printed = json.loads(run.stdout)
            found = [(each["severity"], each["check"], each["component"]) for each in printed["findings"]]
            assert printed["topologies"] == [source.name], run.stdout + run.stderr
            return (run.returncode, found) == (1, [("warning", "trees", "split")])

        # On a busy machine a bolt may make no progress during the watch.
        eventually(is_right, "no other finding", 120)


@pytest.mark.usefixtures("nothing_runs")
def test_an_unhealthy_topology_has_one_finding_for_each_fault(doctor: Acker, log: AckLog) -> None:
    name, admin = log.topology, AdminClient(log.kafka)
    inbox, notices = tuples_topic(name, "b"), notices_topic(name, "s")
    assert ("problem", "manifest", "no-such") in findings(doctor("no-such", "--json"), 2)

    # It does not run, and records wait: one in the inbox, three behind the spout's offset in its source.
    source = f"{name}-source"
    create_topics(log.kafka, [NewTopic(source, 2, 1)])
    log.produce(inbox, 0, b"{}")
    for _ in range(5):
        log.produce(source, 1, b"{}")
    spout = Consumer({**log.kafka, "group.id": component_group(name, "s"), "enable.auto.commit": False})
    spout.commit(offsets=[TopicPartition(source, 1, 2)], asynchronous=False)
    spout.close()
    assert findings(doctor(name, "--json"), 0) == {("warning", "groups", name)}
    strict = doctor(name, "--strict")
    assert strict.returncode == 1
    assert "lag 4 records" in strict.stdout

    # A bolt without ackers and without its spout, which commits nothing while a record waits.
    with log.member():
        assert {
            ("problem", "ackers", name),
            ("problem", "groups", f"{name}.s"),
            ("warning", "lag", f"{name}.b"),
        } <= findings(doctor(name, "--json"), 2)

    log.set_config(log.topic, "message.timestamp.type", "CreateTime")
    log.set_config(notices, "retention.ms", "60000")
    admin.create_partitions([NewPartitions(notices, 6)])[notices].result()
    eventually(lambda: log.catalogue.topics()[notices] == 6, "six partitions")
    log.delete_topic(inbox)
    assert {
        ("problem", "topic-settings", log.topic),
        ("problem", "topics", notices),
        ("problem", "topics", inbox),
        ("warning", "retention", notices),
    } <= findings(doctor(name, "--json"), 2)
    plain = doctor(name).stdout
    assert f"Topic {inbox} does not exist.\n  → Create it: acker topics create MODULE:TOPOLOGY.\n" in plain
    assert f"--entity-name {log.topic} --add-config message.timestamp.type=LogAppendTime\n" in plain

"""`acker doctor` on real topologies: one that is well, and several that are not."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from acker_worker.catalogue import Catalogue
from tests.kafka.ack_log import AckLog
from tests.kafka.sdk_rig import Use
from tests.kafka.test_cli_topologies import member_of
from tests.unit.cli.running import Acker, Run, run_acker, running_acker
from tests.waiting import eventually
from tuple_tree.names import component_group, notices_topic, tuples_topic

ROOT = Path(__file__).parents[2]


@pytest.fixture
def doctor(bootstrap_servers: str) -> Acker:
    def run(*arguments: str, servers: str = bootstrap_servers) -> Run:
        return run_acker("doctor", *arguments, "--watch", "2", "--bootstrap-servers", servers, cwd=ROOT)

    return run


@pytest.fixture
def log(bootstrap_servers: str) -> Iterator[AckLog]:
    with AckLog(bootstrap_servers, timeout_ms=30_000) as log:
        yield log
        log.catalogue.withdraw(log.topology)


def found(run: Run, code: int) -> set[tuple[str, str, str]]:
    """Severity, check and subject of the findings."""
    assert run.returncode == code, run.stdout + run.stderr
    said: dict[str, Any] = json.loads(run.stdout)
    assert said["exit_code"] == code
    return {(each["severity"], each["check"], each["subject"]) for each in said["findings"]}


def set_config(log: AckLog, topic: str, key: str, value: str) -> None:
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient(log.kafka)
    for answer in admin.incremental_alter_configs([resource]).values():
        answer.result()


@pytest.mark.parametrize("topology", ["endless", "words_exactly_once"])
def test_a_healthy_topology_has_no_finding(topology: str, use: Use, doctor: Acker, bootstrap_servers: str) -> None:
    """In the second one the marks of transactions are all that follows the last record."""
    cluster = use(topology)
    Catalogue(cluster.kafka).publish(cluster.manifest)
    code = f"tests.kafka.sdk_topologies:{topology}"
    name, servers = cluster.manifest.topology, ("--bootstrap-servers", bootstrap_servers)
    seen: list[str] = []

    def is_fine(topology: str, *how: str) -> str:
        """What is said if nothing is wrong: on a busy machine a bolt may well stand still for two seconds."""
        run = doctor(topology, "--strict", *how)
        seen.append(run.stdout + run.stderr)
        return run.stdout if run.returncode == 0 else ""

    with (
        running_acker("worker", "--topology", name, *servers, cwd=ROOT) as worker,
        running_acker("run", code, *servers, cwd=ROOT) as running,
    ):
        eventually(cluster.batches, "acks")
        try:
            told = eventually(lambda: is_fine(name), "nothing to be wrong", deadline_s=90)
            said = json.loads(eventually(lambda: is_fine(code, "--json"), "nothing to be wrong", deadline_s=90))
        except AssertionError as error:
            raise AssertionError(seen[-1]) from error
        running.end(signal.SIGINT)
        worker.process.send_signal(signal.SIGTERM)
        assert worker.ended() == 0
    assert told.endswith("\nnothing is wrong\n")
    assert said["topologies"] == [cluster.manifest.topology]
    assert (said["findings"], said["cluster"]["brokers"]) == ([], 1)
    Catalogue(cluster.kafka).withdraw(cluster.manifest.topology)


def test_topics_that_are_not_as_they_have_to_be(doctor: Acker, log: AckLog) -> None:
    inbox, notices = tuples_topic(log.topology, "b"), notices_topic(log.topology, "s")
    set_config(log, log.topic, "message.timestamp.type", "CreateTime")
    set_config(log, notices, "retention.ms", "60000")
    admin = AdminClient(log.kafka)
    admin.create_partitions([NewPartitions(notices, 6)])[notices].result()
    eventually(lambda: log.catalogue.topics()[notices] == 6, "six partitions")
    log.delete_topic(inbox)
    findings = found(doctor(log.topology, "--json"), 2)
    assert {
        ("problem", "topic-settings", log.topic),
        ("problem", "topics", notices),
        ("problem", "topics", inbox),
        ("warning", "retention", notices),
    } <= findings
    plain = doctor(log.topology).stdout
    assert f"Topic {inbox} does not exist.\n  → Create it: acker topics create MODULE:TOPOLOGY.\n" in plain
    assert f"--entity-name {log.topic} --add-config message.timestamp.type=LogAppendTime\n" in plain


def test_groups_without_members(doctor: Acker, log: AckLog, bootstrap_servers: str) -> None:
    """A topology that does not run, and then a bolt without ackers and without its spout."""
    log.append_to(tuples_topic(log.topology, "b"), 0, b"{}")
    assert found(doctor(log.topology, "--json"), 0) == {("warning", "groups", log.topology)}
    assert "1 records wait" in doctor(log.topology, "--strict").stdout
    assert doctor(log.topology, "--strict").returncode == 1
    bolt = member_of(bootstrap_servers, log)
    try:
        assert {
            ("problem", "ackers", log.topology),
            ("problem", "groups", f"{log.topology}.s"),
        } <= found(doctor(log.topology, "--json"), 2)
    finally:
        bolt.close()


def test_what_waits_in_the_source_of_a_spout(doctor: Acker, log: AckLog) -> None:
    """As far as it has committed there; the source is nobody's whom the manifest knows."""
    source, admin = f"{log.topology}-source", AdminClient(log.kafka)
    admin.create_topics([NewTopic(source, 2, 1)])[source].result(30)
    for _ in range(5):
        log.append_to(source, 1, b"{}")
    consumer = Consumer({**log.kafka, "group.id": component_group(log.topology, "s"), "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition(source, 1, 2)], asynchronous=False)
    consumer.close()
    assert "3 records wait" in doctor(log.topology).stdout
    admin.delete_topics([source])[source].result(30)
    eventually(lambda: source not in log.catalogue.topics(), "the source is gone")
    assert "0 records wait" in doctor(log.topology).stdout


def test_a_lag_that_stands_still(doctor: Acker, log: AckLog, bootstrap_servers: str) -> None:
    """A member that commits nothing, while a record waits."""
    bolt = member_of(bootstrap_servers, log)
    try:
        log.append_to(tuples_topic(log.topology, "b"), 0, b"{}")
        assert ("warning", "lag", f"{log.topology}.b") in found(doctor(log.topology, "--json"), 2)
    finally:
        bolt.close()


def test_what_is_not_there(doctor: Acker) -> None:
    assert ("problem", "manifest", "no-such") in found(doctor("no-such", "--json"), 2)
    nowhere = doctor("--json", servers="127.0.0.1:1")
    assert found(nowhere, 2) == {("problem", "cluster", "127.0.0.1:1")}
    assert "no broker answers at 127.0.0.1:1" in nowhere.stdout

"""A topology that is paused, drained and stopped while `acker run` runs it; its state outlives its processes."""

import os
import re
import signal
import uuid
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, TopicPartition

from inspection.topology_status import ClusterStatus
from kafka_clients.catalogue import Catalogue
from tests.kafka.sdk_rig import progress, write_in_transactions
from tests.kafka.sdk_topologies import NAME
from tests.kafka.source_rig import MODULE, Source
from tests.kafka.source_topologies import SOURCE
from tests.unit.cli.running import RunningAcker, call_acker, command_line, descendants, is_alive, json_of, running_acker
from tests.waiting import eventually
from tuple_tree.names import component_group, tuples_topic


@pytest.fixture
def source(bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch) -> Source:
    name = f"requested-{uuid.uuid4().hex[:8]}"
    monkeypatch.setenv(NAME, name)
    monkeypatch.setenv(SOURCE, f"{name}-lines")
    source = Source(bootstrap_servers, "two_tasks", {f"{name}-lines": 2})
    Catalogue(source.bootstrap).publish(source.manifest)
    return source


@pytest.mark.exhaustive
def test_a_topology_pauses_across_a_kill_drains_and_stops(source: Source, tmp_path: Path) -> None:
    name, servers = source.manifest.topology, source.bootstrap["bootstrap.servers"]
    acker = partial(call_acker, "topologies", servers=servers)
    arguments = ("run", f"{MODULE}:two_tasks", "--ackers", "1", "--bootstrap-servers", servers)
    source.feed([f"line {number}" for number in range(200_000)])
    environment = {"PYTHONPATH": os.getcwd()}

    with running_acker(*arguments, cwd=tmp_path, environment=environment) as command:
        command.wait_until(lambda: acked(source) > 0, "an ack")
        paused = json_of(acker("pause", name, "--wait", "--json"))
        assert paused["is_done"], paused
        top = figures(servers, name)
        assert (top["control"], top["components"][0]["pending"]) == ("paused", 0)
        before, emitted = acked(source), top["components"][0]["totals"]["emitted"]
        assert any(source.lag()), "the pause came while there was work"
        kill_spout(command, source)
        command.wait_until(lambda: command.output.count("lines/1 reads ") == 2, "its successor to read the source")
        command.wait_until(lambda: command.output.count(f"lines of {name} is paused") == 2, "its requested state")
        after = figures(servers, name)["components"][0]
        assert (after["control"], after["totals"]["emitted"]) == (["paused"], emitted)
        (row,) = (each for each in json_of(acker("list", "--json"))["topologies"] if each["topology"] == name)
        assert row["state"] == "paused"
        assert "acker topologies resume" in acker("show", name).stdout
        assert acked(source) == before

        assert json_of(acker("resume", name, "--json"))["state"] == "running"
        command.wait_until(lambda: acked(source) > before, "more acks")
        drained = json_of(acker("drain", name, "--wait", "--json"))
        assert drained["is_done"], drained
        in_between = acked(source)
        stopped = json_of(acker("stop", name, "--wait", "--json"))
        assert stopped["is_done"], stopped
        assert command.ended() == 0
        assert f"{name} is stopped" in command.output
        assert acked(source) == in_between

    with running_acker(*arguments, "--metrics-port", "0", cwd=tmp_path, environment=environment) as command:
        command.wait_for("waiting for acker topologies resume")
        at = re.compile(r"metrics at (http://127\.0\.0\.1:\d+)/metrics")
        command.wait_until(lambda: at.search(command.output) is not None, "its port")
        for page in ("live", "health"):  # or Kubernetes would kill it again and again, with longer and longer pauses
            with urlopen(f"{at.findall(command.output)[0]}/{page}", timeout=10) as answer:
                assert answer.status == HTTPStatus.OK
        assert not descendants(command.process.pid)
        acker("resume", name)
        command.wait_until(lambda: acked(source) > in_between, "acks of what was left")
        assert command.end(signal.SIGTERM) == 0


def test_a_topology_without_processes_is_drained_and_its_record_goes_with_it(source: Source) -> None:
    name, servers = source.manifest.topology, source.bootstrap["bootstrap.servers"]
    late = call_acker("topologies", "pause", "none", servers=servers)
    assert "none" in late.stderr
    assert late.returncode == 1
    # No process runs, so nothing is emitted; and nothing has been.
    assert json_of(call_acker("topologies", "drain", name, "--wait", "--json", servers=servers))["is_done"]
    # Then a bolt without a state may get more tasks.
    inbox = tuples_topic(name, "see")
    for _ in range(2):
        Catalogue(source.bootstrap).add_partitions(inbox, 3)
        assert Catalogue(source.bootstrap).topics()[inbox] == 3
    Catalogue(source.bootstrap).withdraw(name)
    assert name not in Catalogue(source.bootstrap).controls()


def figures(servers: str, name: str) -> Any:
    return json_of(call_acker("top", name, "--once", "--json", servers=servers))


def acked(source: Source) -> int:
    """Messages before the committed offsets."""
    topics = (progress(source.bootstrap, source.group, topic) for topic in source.topics)
    return sum(committed for each in topics for committed, _ in each.values())


def kill_spout(command: RunningAcker, source: Source) -> None:
    (pid,) = (pid for pid in descendants(command.process.pid) if command_line(pid).endswith(" lines"))
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not is_alive(pid), "the spout's process to be gone")


def test_markers_of_transactions_are_no_unread_records_of_a_drained_topology(source: Source) -> None:
    name, bolt = source.manifest.topology, source.manifest.inboxes[0].name
    inbox, group = tuples_topic(name, bolt), component_group(name, bolt)
    write_in_transactions(source.bootstrap, inbox, [(b"x", True), (b"x", True)])
    status = ClusterStatus(source.bootstrap)

    def lags(offset: int) -> tuple[int | None, int | None]:
        consumer = Consumer({**source.bootstrap, "group.id": group})
        consumer.commit(offsets=[TopicPartition(inbox, 0, offset)], asynchronous=False)
        consumer.close()
        with_markers, without = (
            status.lags(source.manifest, {}, counts_markers=counts).lags[bolt] for counts in (True, False)
        )
        return with_markers, without

    assert lags(3) == (1, 0), "record, marker, record, and a marker that no reader gets"
    assert lags(2) == (2, 2)

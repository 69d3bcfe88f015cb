"""A topology that is paused, drained and stopped while `acker run` runs it; its state outlives its processes."""

import json
import os
import re
import signal
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from acker_cli.cluster.publishing import planned
from inspection.topology_status import ClusterStatus
from kafka_clients.catalogue import Catalogue
from tests.kafka.sdk_rig import Source, Use, write_in_transactions
from tests.pages import ROOT
from tests.unit.cli.running import RunningAcker, call_acker, command_line, descendants, is_alive, json_of, running_acker
from tests.waiting import eventually
from tuple_tree.done_sets import DoneSet
from tuple_tree.names import component_group, tuples_topic
from tuple_tree.source_commits import SourceCommit


@pytest.fixture
def source(use: Use) -> Source:
    source = use("two_tasks", 2)
    Catalogue(source.bootstrap).publish(source.manifest)
    return source


@pytest.mark.exhaustive
def test_a_topology_pauses_across_a_kill_drains_and_stops(source: Source, tmp_path: Path) -> None:
    name = source.name
    acker = partial(call_acker, "topologies", servers=source.servers)
    arguments = ("run", source.reference, "--ackers", "1", "--bootstrap-servers", source.servers)
    source.feed([f"line {number}" for number in range(200_000)])
    environment = {"PYTHONPATH": str(ROOT)}

    with running_acker(*arguments, cwd=tmp_path, environment=environment) as command:
        command.wait_until(lambda: acked(source) > 0, "an ack")
        paused = json_of(acker("pause", name, "--wait", "--json"))
        assert paused["is_done"], paused
        top = figures(source)
        assert (top["control"], top["components"][0]["pending"]) == ("paused", 0)
        before, emitted = acked(source), top["components"][0]["totals"]["emitted"]
        assert any(at < end for at, end in source.source_progress()), "the pause came while there was work"
        kill_spout(command)
        command.wait_until(lambda: command.output.count("lines/1 reads ") == 2, "its successor to read the source")
        command.wait_until(lambda: command.output.count(f"lines of {name} is paused") == 2, "its requested state")
        after = figures(source)["components"][0]
        assert (after["control"], after["totals"]["emitted"]) == (["paused"], emitted)
        (row,) = (each for each in json_of(acker("list", "--json"))["topologies"] if each["topology"] == name)
        assert row["state"] == "paused"
        assert "acker topologies resume" in acker("show", name).stdout
        assert acked(source) == before

        assert json_of(acker("resume", name, "--json"))["state"] == "running"
        command.wait_until(lambda: acked(source) > before, "more acks")
        assert json_of(acker("drain", name, "--wait", "--json"))["is_done"]
        in_between = acked(source)
        assert json_of(acker("stop", name, "--wait", "--json"))["is_done"]
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
    acker, catalogue = partial(call_acker, "topologies", servers=source.servers), Catalogue(source.bootstrap)
    late = acker("pause", "none")
    assert (late.returncode, "none" in late.stderr) == (1, True)
    # No process runs, so nothing is emitted; and nothing has been.
    assert json_of(acker("drain", source.name, "--wait", "--json"))["is_done"]
    # Then a bolt without a state may get more tasks.
    inbox = tuples_topic(source.name, "see")
    for _ in range(2):
        catalogue.add_partitions(inbox, 3)
        assert catalogue.topics()[inbox] == 3
    catalogue.withdraw(source.name)
    assert source.name not in catalogue.controls()


def test_a_topology_is_not_drained_while_a_killed_spout_has_left_messages_open(source: Source) -> None:
    source.feed([f"line {number}" for number in range(20)])
    consumer = Consumer({**source.bootstrap, "group.id": component_group(source.name, source.manifest.spouts[0].name)})
    end = consumer.get_watermark_offsets(TopicPartition(source.source, 0), timeout=10)[1]

    def drained(done: DoneSet) -> Any:
        made = SourceCommit(done, 4, emitted_to=100).made()
        consumer.commit(offsets=[TopicPartition(source.source, 0, made.offset, made.metadata)], asynchronous=False)
        wait = ("--wait", "--timeout", "0", "--json")
        return json.loads(call_acker("topologies", "drain", source.name, *wait, servers=source.servers).stdout)

    (left,) = drained(DoneSet(0, [(1, 2)]))["left"]
    assert f"{end - 1} emitted messages not committed as done, the first one at offset 0 of {source.source}[0]" in left
    assert drained(DoneSet(end))["is_done"]
    consumer.close()


def figures(source: Source) -> Any:
    return json_of(call_acker("top", source.name, "--once", "--json", servers=source.servers))


def acked(source: Source) -> int:
    """Messages before the committed offsets."""
    return sum(committed for committed, _ in source.source_progress())


def kill_spout(command: RunningAcker) -> None:
    (pid,) = (pid for pid in descendants(command.process.pid) if command_line(pid).endswith(" lines"))
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not is_alive(pid), "the spout's process to be gone")


def test_markers_of_transactions_hold_up_neither_a_drain_nor_an_upgrade(source: Source) -> None:
    bolt, catalogue = source.manifest.inboxes[0].name, Catalogue(source.bootstrap)
    inbox, group = tuples_topic(source.name, bolt), component_group(source.name, bolt)
    write_in_transactions(source.bootstrap, inbox, [(b"x", True), (b"x", False), (b"x", True)])
    status = ClusterStatus(source.bootstrap)
    changed = source.manifest.model_copy(update={"guarantee": "exactly_once"})

    def lags(offset: int) -> list[int | None]:
        consumer = Consumer({**source.bootstrap, "group.id": group})
        consumer.commit(offsets=[TopicPartition(inbox, 0, offset)], asynchronous=False)
        consumer.close()
        return [status.lags(source.manifest, {}).lags[bolt] for _ in range(3)]

    def shown() -> tuple[int, bool]:
        listed = json_of(call_acker("topologies", "list", "--json", servers=source.servers))["topologies"]
        (row,) = (each for each in listed if each["topology"] == source.name)
        steps = planned(source.bootstrap, catalogue, changed, force=False)
        return row["lag"], any(step.by == "refused" for step in steps)

    assert lags(4) == [2, 2, 2], "a record, and a marker that no reader gets"
    assert shown() == (2, True)
    assert lags(5) == [1, 0, 0]
    assert shown() == (0, False)
    assert lags(2) == [4, 4, 4]
    # A transaction that is open may still be committed.
    producer = Producer({**source.bootstrap, "transactional.id": source.name})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(inbox, b"x", partition=0)
    assert producer.flush(60) == 0
    assert lags(6) == [1, 1, 1]
    producer.abort_transaction(60)
    assert lags(6) == [2, 0, 0]

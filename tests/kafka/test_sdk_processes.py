"""Processes: what a failed start says, who restarts whom, and that nobody outlives the parent."""

import os
import signal
import subprocess
import sys
import textwrap
import uuid

import pytest

from spout_sdk import (
    BrokerUnreachableError,
    ComponentRunner,
    Exit,
    ProcessError,
    SpoutSdkError,
    TopicsError,
    TopologyError,
    TopologyRunner,
    load_topology,
)
from tests.kafka.sdk_rig import Cluster
from tests.kafka.sdk_topologies import NAME, RELEASE
from tests.unit.cli.running import is_alive
from tests.waiting import eventually

ENDLESS = "tests.kafka.sdk_topologies:endless"
HOLDING = "tests.kafka.sdk_topologies:holding"


@pytest.fixture
def cluster(bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setenv(NAME, f"processes-{uuid.uuid4().hex[:8]}")
    return Cluster(bootstrap_servers, load_topology(ENDLESS).manifest)


def test_missing_topics_stop_everything_with_one_line(cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> None:
    exits: list[Exit] = []
    runner = TopologyRunner(ENDLESS, cluster.kafka, on_exit=exits.append)
    with pytest.raises(ProcessError) as failed:
        runner.run()
    name = cluster.manifest.topology
    assert f"topology {name!r} has no topic {name}.acks" in str(failed.value)
    assert str(failed.value).endswith("create them with `acker topics create MODULE:TOPOLOGY`")
    assert "\n" not in str(failed.value)
    assert exits[0].code == 2
    assert exits[0].restarts_in is None
    assert "Traceback" not in capfd.readouterr().err
    assert {pid for pids in runner.pids().values() for pid in pids} == set()


def test_topics_of_another_shape_are_refused(cluster: Cluster) -> None:
    cluster.create_topics()
    other = load_topology(HOLDING)
    changed = cluster.manifest.model_copy(update={"ack_partitions": 5})
    topology = type(other)(changed, load_topology(ENDLESS).factories)
    with pytest.raises(TopicsError, match=r"\.acks has 3 partitions, but the topology needs 5"):
        ComponentRunner(topology, "split", cluster.kafka).run()


def test_an_unreachable_broker_is_one_clear_line(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spout_sdk.kafka_checks.ANSWER_SECONDS", 0.5)
    runner = ComponentRunner(load_topology(ENDLESS), "split", {"bootstrap.servers": "127.0.0.1:1"})
    with pytest.raises(BrokerUnreachableError, match=r"no Kafka broker answered at 127\.0\.0\.1:1 .* start one"):
        runner.run()


def test_settings_must_say_where_kafka_is(cluster: Cluster) -> None:
    with pytest.raises(SpoutSdkError, match=r"no bootstrap\.servers: pass it, or set ACKER_KAFKA__BOOTSTRAP_SERVERS"):
        ComponentRunner(load_topology(ENDLESS), "split", {})


@pytest.mark.parametrize(
    ("processes", "says"),
    [
        ({"split": 3}, "it has 2 tasks"),
        ({"split": 0}, "cannot run in 0 processes"),
        ({"no": 1}, "processes names 'no'"),
    ],
)
def test_processes_must_fit_the_topology(cluster: Cluster, processes: dict[str, int], says: str) -> None:
    with pytest.raises(TopologyError, match=says):
        TopologyRunner(ENDLESS, cluster.kafka, processes)


def test_a_killed_process_is_reported_and_started_again(cluster: Cluster) -> None:
    cluster.create_topics()
    exits: list[Exit] = []
    with TopologyRunner(ENDLESS, cluster.kafka, on_exit=exits.append) as runner:
        assert runner.wait_ready(120)
        killed = runner.kill("count")
        eventually(lambda: runner.pids()["count"] not in ([], [killed]), "another process")
        assert [(each.component, each.pid, each.code) for each in exits] == [("count", killed, -signal.SIGKILL)]
        assert str(exits[0]).startswith(f"process {killed} of count was killed by SIGKILL; restarting in")
        assert runner.wait_ready(120)


def test_without_restart_one_end_is_the_end_of_all(cluster: Cluster) -> None:
    cluster.create_topics()
    with TopologyRunner(ENDLESS, cluster.kafka, restart=False) as runner:
        assert runner.wait_ready(120)
        runner.kill("split")
        with pytest.raises(ProcessError, match=r"split: process .* was killed by SIGKILL"):
            runner.wait(30)


def test_an_exception_of_the_user_is_a_line_for_the_supervisor(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The bolt looks for this variable when it is prepared.
    monkeypatch.delenv(RELEASE, raising=False)
    holding = Cluster(cluster.kafka["bootstrap.servers"], load_topology(HOLDING).manifest)
    holding.create_topics()
    runner = TopologyRunner(HOLDING, cluster.kafka, restart=False)
    with pytest.raises(ProcessError, match=r"hold: hold/0 stopped: prepare\(\) raised KeyError: 'SDK_TEST_RELEASE'"):
        runner.run()


def test_children_end_with_a_parent_that_is_killed(cluster: Cluster) -> None:
    cluster.create_topics()
    code = f"""
        import sys, time
        from spout_sdk import TopologyRunner
        with TopologyRunner({ENDLESS!r}, {cluster.kafka!r}) as runner:
            assert runner.wait_ready(120)
            print(*[pid for pids in runner.pids().values() for pid in pids], flush=True)
            sys.stdin.read()
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ}
    )
    try:
        assert parent.stdout is not None
        children = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(children) == 3
        assert all(map(is_alive, children))
    finally:
        parent.kill()
        parent.communicate()
    eventually(lambda: not any(map(is_alive, children)), "every child ended", 20)


def test_a_process_started_by_hand_says_how_it_is_done() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "spout_sdk.process"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "use `acker run MODULE:TOPOLOGY --component COMPONENT`" in done.stderr

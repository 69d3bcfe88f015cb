"""Processes: errors at the start, restarts, and the end with their parent."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from spout_sdk import (
    BrokerUnreachableError,
    ComponentError,
    ComponentRunner,
    Exit,
    ProcessError,
    SpoutSdkError,
    TopicsError,
    Topology,
    TopologyError,
    TopologyRunner,
    load_topology,
)
from tests.kafka.sdk_rig import Cluster, Use, acking
from tests.kafka.sdk_topologies import LINES, LINES_A_WINDOW, NAME, RELEASE
from tests.kafka.source_topologies import SOURCE
from tests.packs import packed, tuples_in
from tests.unit.cli.running import is_alive
from tests.waiting import eventually

MODULE = "tests.kafka.sdk_topologies"
ENDLESS = f"{MODULE}:endless"


@pytest.mark.smoke
def test_a_killed_process_is_reported_and_started_again_and_sigterm_ends_all_in_order(
    use: Use, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = use("words")
    exits: list[Exit] = []
    with (
        acking(cluster),
        TopologyRunner(f"{MODULE}:words", cluster.kafka, {"count": 2}, on_exit=exits.append) as runner,
    ):
        eventually(lambda: runner.stats()["lines"].counters.get("acked") == LINES, "every line acked")
        assert {component: len(pids) for component, pids in runner.pids().items()} == {
            "lines": 1,
            "split": 1,
            "count": 2,
        }
        killed = runner.kill("count")
        eventually(lambda: len({*runner.pids()["count"]} - {killed}) == 2, "another process")
        runner.stop()
        assert runner.wait(0)
        stats = runner.stats()
    assert [(each.component, each.pid, each.code) for each in exits] == [("count", killed, -signal.SIGKILL)]
    assert str(exits[0]).startswith(f"process {killed} of count was killed by SIGKILL; restarting in")
    assert "did not stop in time" not in caplog.text
    assert all(committed == end for committed, end in cluster.progress("split").values())
    failed = LINES // 10
    assert (stats["lines"].emitted, stats["lines"].failed, stats["lines"].pending) == (
        LINES + failed,
        {"failed": failed},
        0,
    )


def test_a_start_error_is_one_line(
    use: Use, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("spout_sdk.kafka.kafka_checks.ANSWER_SECONDS", 1.0)
    monkeypatch.setenv(SOURCE, "no-such-topic")
    monkeypatch.delenv(RELEASE, raising=False)
    cluster = use("holding")
    kafka, name = cluster.kafka, cluster.manifest.topology
    holding = load_topology(f"{MODULE}:holding")
    other = Topology(holding.manifest.model_copy(update={"ack_partitions": 5}), holding.factories)
    monkeypatch.setenv(NAME, f"{name}-sources")
    sources = load_topology("tests.kafka.source_topologies:one_task")
    Cluster(kafka["bootstrap.servers"], sources.manifest).create_topics()
    monkeypatch.setenv(NAME, f"{name}-none")

    def run(topology: Topology, component: str, kafka: dict[str, Any]) -> Callable[[], Any]:
        return lambda: ComponentRunner(topology, component, kafka).run()

    def plan(processes: dict[str, int]) -> Callable[[], Any]:
        return lambda: TopologyRunner(ENDLESS, kafka, processes)

    refusals: list[tuple[Callable[[], Any], type[SpoutSdkError], str]] = [
        (run(other, "hold", kafka), TopicsError, ".acks has 3 partitions, but the topology needs 5"),
        (
            run(sources, "lines", kafka),
            TopicsError,
            "no-such-topic does not exist, and 'lines' reads it: create it",
        ),
        (
            run(replace(holding, kafka_targets={"hold": "no-such-topic"}), "hold", kafka),
            TopicsError,
            "topic no-such-topic does not exist, and 'hold' writes to it: create it",
        ),
        (run(holding, "hold", kafka), ComponentError, "hold/0 stopped: prepare() raised KeyError: 'SDK_TEST_RELEASE'"),
        (
            run(holding, "hold", {"bootstrap.servers": "127.0.0.1:1"}),
            BrokerUnreachableError,
            "no broker answers at 127.0.0.1:1",
        ),
        (
            run(holding, "hold", {}),
            SpoutSdkError,
            "no bootstrap.servers: pass it, or set ACKER_KAFKA__BOOTSTRAP_SERVERS",
        ),
        (plan({"split": 3}), TopologyError, "it has 2 tasks"),
        (plan({"split": 0}), TopologyError, "cannot run in 0 processes"),
        (plan({"no": 1}), TopologyError, "processes names 'no'"),
    ]
    for refused, error, expected in refusals:
        with pytest.raises(error) as raised:
            refused()
        assert expected in str(raised.value)
        assert "\n" not in str(raised.value)

    exits: list[Exit] = []
    runner = TopologyRunner(ENDLESS, kafka, on_exit=exits.append)
    with pytest.raises(ProcessError) as failed:
        runner.run()
    assert f"topic {name}-none." in str(failed.value)
    assert str(failed.value).endswith("does not exist. Create it: acker topics create MODULE:TOPOLOGY")
    assert (exits[0].code, exits[0].restarts_in) == (2, None)
    assert "Traceback" not in capfd.readouterr().err
    assert not any(runner.pids().values())


def test_a_process_started_by_hand_names_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "spout_sdk.runtime.process"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "use `acker run MODULE:TOPOLOGY --component COMPONENT`" in done.stderr


@pytest.mark.exhaustive
def test_without_restart_the_end_of_one_process_ends_all(use: Use) -> None:
    with TopologyRunner(ENDLESS, use("endless").kafka, restart=False) as runner:
        assert runner.wait_ready(120)
        runner.kill("split")
        with pytest.raises(ProcessError, match=r"split: process .* was killed by SIGKILL"):
            runner.wait(30)


@pytest.mark.exhaustive
def test_children_end_with_a_parent_that_is_killed(use: Use) -> None:
    code = f"""
        import sys
        from spout_sdk import TopologyRunner
        with TopologyRunner({ENDLESS!r}, {use("endless").kafka!r}) as runner:
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


@pytest.mark.exhaustive
def test_held_tuples_of_a_killed_process_are_in_the_next_owners_windows(use: Use) -> None:
    cluster = use("batches")
    name = cluster.manifest.topology
    with acking(cluster), TopologyRunner(f"{MODULE}:batches", cluster.kafka) as runner:
        eventually(lambda: runner.stats()["lines"].acked == LINES_A_WINDOW, "the first window acked", 120)
        eventually(lambda: cluster.progress("batch") == {0: (LINES_A_WINDOW, LINES)}, "what is held not committed")
        (before,) = runner.pids()["batch"]
        assert runner.kill("batch") == before
        eventually(lambda: runner.pids()["batch"] not in ([], [before]), "another process", 120)
        # Untracked lines fill the window, so that it closes.
        stream = cluster.manifest.stream("lines", "default")
        for number in range(LINES, 2 * LINES_A_WINDOW):
            payload = packed(stream, (number, 0, "more"))
            cluster.produce(f"{name}.tuples.batch", 0, payload, [("source", b"lines/default")])
        eventually(lambda: runner.stats()["lines"].acked == LINES, "every line acked", 120)
        eventually(lambda: cluster.progress("batch") == {0: (100, 100)}, "all committed")
    batches = tuples_in(cluster.records(f"{name}.tuples.keep"), cluster.manifest.stream("batch", "default"))
    kept = [each.values[0].split() for each in batches]
    assert [sorted(map(int, batch)) for batch in kept] == [
        list(range(LINES_A_WINDOW)),
        list(range(LINES_A_WINDOW, 2 * LINES_A_WINDOW)),
    ]

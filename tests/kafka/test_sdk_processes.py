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

from spout_sdk import TaskContext, Topology
from spout_sdk.errors import BrokerUnreachableError, ComponentError, ProcessError, SpoutSdkError, TopicsError
from spout_sdk.runtime import ComponentRunner, Exit, TopologyRunner
from tests.chaos.components import NAME
from tests.components import Sink
from tests.kafka.sdk_rig import Source, Use
from tests.kafka.topologies import LINES, SOURCE
from tests.unit.cli.running import is_alive
from tests.waiting import eventually


@pytest.mark.smoke
def test_a_killed_worker_is_reported_and_started_again_and_sigterm_ends_all_in_order(
    use: Use, caplog: pytest.LogCaptureFixture
) -> None:
    source = use("words")
    exits: list[Exit] = []
    with source.processes(workers=[["lines"], *[["split", "count"]] * 2], on_exit=exits.append) as runner:
        eventually(lambda: runner.stats()["lines"].counters.get("acked") == LINES, "every line acked")
        pids = runner.pids()
        assert (len(pids["lines"]), len(pids["split"]), pids["count"]) == (1, 2, pids["split"])
        killed = runner.kill("count")
        eventually(lambda: len({*runner.pids()["count"]} - {killed}) == 2, "another process")
        eventually(lambda: all(at == end for at, end in source.progress("split").values()), "what was not committed")
        runner.stop()
        assert runner.wait(0)
        stats = runner.stats()
    assert [(each.pid, each.code) for each in exits] == [(killed, -signal.SIGKILL)]
    assert str(exits[0]).startswith(f"process {killed} of split, count was killed by SIGKILL; restarting in")
    assert "did not stop in time" not in caplog.text
    lines, failed = stats["lines"], LINES // 10
    assert (lines.emitted, lines.failed, lines.pending) == (LINES + failed, {"failed": failed}, 0)


class Failing(Sink):
    def prepare(self, context: TaskContext) -> None:
        raise KeyError("the setting")


def test_a_start_error_is_one_line(
    use: Use, bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("spout_sdk.kafka.kafka_checks.ANSWER_SECONDS", 1.0)
    words = use("words")
    kafka, made = words.kafka, words.topology
    failing = replace(made, factories={**made.factories, "count": Failing})
    other = Topology(made.manifest.model_copy(update={"ack_partitions": 5}), made.factories)
    monkeypatch.setenv(NAME, f"{words.name}-sources")
    monkeypatch.setenv(SOURCE, "no-such-topic")
    sources = Source(bootstrap_servers, "tests.kafka.topologies:one_task", {}).topology

    def run(topology: Topology, component: str, kafka: dict[str, Any]) -> Callable[[], Any]:
        return lambda: ComponentRunner(topology, component, kafka).run()

    nowhere = {"bootstrap.servers": "127.0.0.1:1"}
    writing = replace(made, kafka_targets={"count": "no-such-topic"})
    refusals: list[tuple[Callable[[], Any], type[SpoutSdkError], str]] = [
        (run(other, "count", kafka), TopicsError, ".acks has 3 partitions, but the topology needs 5"),
        (run(sources, "lines", kafka), TopicsError, "no-such-topic does not exist, and 'lines' reads it: create it"),
        (
            run(writing, "count", kafka),
            TopicsError,
            "topic no-such-topic does not exist, and 'count' writes to it: create it",
        ),
        (run(failing, "count", kafka), ComponentError, "count/0 stopped: prepare() raised KeyError: 'the setting'"),
        (run(made, "count", nowhere), BrokerUnreachableError, "no broker answers at 127.0.0.1:1"),
        (
            run(made, "count", {}),
            SpoutSdkError,
            "no bootstrap.servers: pass it, or set ACKER_KAFKA__BOOTSTRAP_SERVERS",
        ),
    ]
    for refused, error, expected in refusals:
        with pytest.raises(error) as raised:
            refused()
        assert expected in str(raised.value)
        assert "\n" not in str(raised.value)

    monkeypatch.setenv(NAME, f"{words.name}-none")
    exits: list[Exit] = []
    runner = TopologyRunner(words.reference, kafka, 1, on_exit=exits.append)
    with pytest.raises(ProcessError) as failed:
        runner.run()
    assert f"topic {words.name}-none." in str(failed.value)
    assert str(failed.value).endswith("does not exist. Create it: acker topics create MODULE:TOPOLOGY")
    assert (exits[0].code, exits[0].restarts_in) == (2, None)
    assert "Traceback" not in capfd.readouterr().err
    assert not any(runner.pids().values())


def test_a_process_started_by_hand_names_the_command() -> None:
    line = [sys.executable, "-m", "spout_sdk.runtime.process"]
    done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "use `acker run MODULE:TOPOLOGY --component COMPONENT`" in done.stderr


@pytest.mark.exhaustive
def test_without_restart_the_end_of_one_process_ends_all(use: Use) -> None:
    source = use("endless")
    with TopologyRunner(source.reference, source.kafka, 1, restart=False) as runner:
        assert runner.wait_ready(120)
        runner.kill("split")
        with pytest.raises(ProcessError, match=r"process .* of lines, .*split.* was killed by SIGKILL"):
            runner.wait(30)


@pytest.mark.exhaustive
def test_children_end_with_a_parent_that_is_killed(use: Use) -> None:
    source = use("endless")
    code = f"""
        import sys
        from spout_sdk.runtime import TopologyRunner
        with TopologyRunner({source.reference!r}, {source.kafka!r}, 2) as runner:
            assert runner.wait_ready(120)
            print(*{{pid for pids in runner.pids().values() for pid in pids}}, flush=True)
            sys.stdin.read()
    """
    line = [sys.executable, "-c", textwrap.dedent(code)]
    parent = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ})
    try:
        assert parent.stdout is not None
        children = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(children) == 2
        assert all(map(is_alive, children))
    finally:
        parent.kill()
        parent.communicate()
    eventually(lambda: not any(map(is_alive, children)), "every child ended", 20)

"""The word count of the compose file: to its end, on a cluster that is left alone and on one that is not."""

from collections.abc import Callable, Sequence
from typing import Final

import pytest

from acker_cli.demo.text import lines
from tests.cluster.ackers import await_shared, owned
from tests.cluster.project import NETWORK, Container, Project, running
from tests.waiting import eventually

_ALL: Final = len(lines())
_UP: Final = ("up", "--detach", "--no-build", "--no-deps")
_BROKERS: Final = ("kafka-1", "kafka-2", "kafka-3")
_WORKING: Final = ("acker", "count", "lines")
_RIGHT: Final = "{0:,} of {0:,} lines acked, 0 of them dead letters\ncounts match: "
# Slow enough for all that shall happen meanwhile; the rest is counted without it.
_SLOW: Final = "10"
_ACKED: Final = """
import os
from acker_cli.demo.progress import LinesDone
from acker_cli.settings.layers import load
print(LinesDone(load().cluster(), os.environ["WORD_COUNT_NAME"]).acked())
"""
_UNDER_REPLICATED: Final = (
    "/opt/kafka/bin/kafka-topics.sh", "--bootstrap-server", "127.0.0.1:9092",
    "--describe", "--under-replicated-partitions",
)  # fmt: skip


def assert_no_restart(project: Project) -> None:
    """No process has ended by itself."""
    restarts = {each.name: project.inspected(each)["RestartCount"] for each in project.containers()}
    assert not any(restarts.values()), restarts


def assert_right(project: Project, lines: int) -> None:
    """Verifies the counts of all lines, and that no process needed a restart."""
    done = project.attempt("run", "--rm", "--no-TTY", "verify", seconds=900)
    assert done.returncode == 0, done.stdout
    assert _RIGHT.format(lines) in done.stdout
    assert_no_restart(project)


def acked(project: Project) -> int:
    """How many lines are acked so far."""
    return int(project.python("count", _ACKED))


def await_progress(project: Project, what: str) -> None:
    """Waits until more lines are acked than now and were open, at some lines a second."""
    before = acked(project)
    eventually(lambda: acked(project) > before + 20, f"lines are acked {what}", 120)


def await_replicas(project: Project) -> None:
    """Waits until all replicas are in sync, before the next broker may stop."""
    line = ("exec", "--no-TTY", "kafka-1", *_UNDER_REPLICATED)
    eventually(lambda: not project.compose(*line).strip(), "no partition lacks a replica", 120)


def stop_and_start_a_broker(project: Project) -> None:
    lose_a_broker(project, "stop")


def kill_a_broker(project: Project) -> None:
    lose_a_broker(project, "kill")


def lose_a_broker(project: Project, how: str) -> None:
    (broker,) = project.containers("kafka-2")
    project.docker(how, broker.id)
    await_progress(project, "without a broker")
    project.docker("start", broker.id)
    project.await_health(broker)
    await_replicas(project)


def kill_an_acker(project: Project) -> None:
    victim, other = project.containers("acker")
    await_shared(project, [victim, other])
    project.docker("kill", victim.id)
    await_shared(project, [other])
    await_progress(project, "by the acker that is left")
    project.docker("start", victim.id)
    await_shared(project, [victim, other])


def cut_off_an_acker(project: Project) -> None:
    """It runs, and is not yet notified that another one owns its partitions."""
    cut_off, other = project.containers("acker")
    project.docker("network", "disconnect", NETWORK, cut_off.id)
    eventually(lambda: len(owned(project.log(other))) == 8, "the other acker has all partitions", 90)
    await_progress(project, "while an acker is cut off")
    project.docker("network", "connect", NETWORK, cut_off.id)
    await_shared(project, [cut_off, other])


def scale_the_ackers(project: Project) -> None:
    for count in (3, 1):
        project.compose(*_UP, "--no-recreate", "--scale", f"acker={count}", "acker")
        workers = project.containers("acker")
        assert len(workers) == count
        await_shared(project, workers)
        await_progress(project, f"by {count} ackers")


def restart_everything(project: Project) -> None:
    """One after the other, as for an upgrade."""
    for container in project.containers(*_BROKERS, *_WORKING):
        project.docker("restart", container.id)
        project.await_health(container)
        if container.service in _BROKERS:
            await_replicas(project)


def is_hardened(project: Project, container: Container) -> bool:
    host = project.inspected(container)["HostConfig"]
    user = project.docker("exec", container.id, "id", "-u").strip()
    return bool(host["ReadonlyRootfs"]) and host["CapDrop"] == ["ALL"] and user != "0"


@pytest.mark.timeout(900)
def test_the_word_count_completes_on_a_fresh_machine() -> None:
    with running() as project:
        assert_right(project, _ALL)
        project.await_health(*project.containers("dashboard"))
        assert all(is_hardened(project, container) for container in project.containers(*_WORKING))


@pytest.mark.smoke
@pytest.mark.timeout(900)
def test_a_killed_broker_and_a_killed_acker_change_no_count() -> None:
    survive((kill_a_broker, kill_an_acker), 6_000)


@pytest.mark.timeout(1800)
def test_restarts_partitions_and_scaling_change_no_count() -> None:
    survive((stop_and_start_a_broker, cut_off_an_acker, scale_the_ackers, restart_everything), 15_000)


def survive(faults: Sequence[Callable[[Project], None]], lines: int) -> None:
    """Counts the words of this number of lines while faults happen, and verifies the result."""
    with running(environment={"WORD_COUNT_RATE": _SLOW, "WORD_COUNT_LINES": str(lines)}) as project:
        eventually(lambda: acked(project) > 0, "the first lines are acked", 120)
        for fault in faults:
            fault(project)
            await_progress(project, f"after {fault.__name__}")
        assert acked(project) < lines, "all faults happen while lines are open"
        assert_no_restart(project)
        project.environment["WORD_COUNT_RATE"] = "0"
        project.compose(*_UP, "text")
        assert_right(project, lines)

"""The profile `spark`: a word count whose spout and bolts are jobs on a Spark cluster; with one broker, for that is to
work as well.
"""

import re
from typing import Final

import pytest

from tests.cluster.project import Project, running
from tests.waiting import eventually

_LINES: Final = 10_000
# A micro-batch of the spout takes half a second at least: enough of them for all that shall happen meanwhile.
_SLOW: Final = "40"
_DRIVERS: Final = ("spark-lines", "spark-split", "spark-count")
_LAUNCHED: Final = re.compile(r"Asked to launch executor \S+ for spark-word-count\.(\w+)")
_ACKED: Final = "from examples.compose.verification import results_of; print(results_of('spark').acked())"
# Until what was killed has started again on a busy machine.
_SECONDS: Final = 600


def acked(project: Project) -> int:
    """How many lines are acked so far."""
    return int(project.python("spark-acker", _ACKED))


def await_progress(project: Project, what: str) -> None:
    """Waits until more lines are acked than now and were open."""
    before = acked(project)
    eventually(lambda: acked(project) > before + 5 * int(_SLOW), f"lines are acked {what}", _SECONDS)


def kill_a_worker(project: Project) -> None:
    """With the executors that it has of each job."""
    victim, _ = project.containers("spark-worker")
    assert {*_LAUNCHED.findall(project.log(victim))} == {"lines", "split", "count"}
    project.docker("kill", victim.id)
    await_progress(project, "without a worker")
    project.docker("start", victim.id)
    project.await_health(victim)


def kill_the_drivers(project: Project) -> None:
    killed = project.containers(*_DRIVERS)
    project.docker("kill", *(driver.id for driver in killed))
    project.docker("start", *(driver.id for driver in killed))
    await_progress(project, "by drivers that were started again")


@pytest.mark.timeout(3600)
def test_a_killed_spark_worker_and_killed_drivers_change_no_count() -> None:
    environment = {"WORD_COUNT_LINES": str(_LINES), "WORD_COUNT_PATIENCE": "600", "SPARK_LINES": _SLOW}
    with running("spark-verify", files=["compose.single.yml"], environment=environment) as project:
        eventually(lambda: acked(project) > 0, "the first lines are acked", _SECONDS)
        for fault in (kill_a_worker, kill_the_drivers):
            fault(project)
        assert acked(project) < _LINES, "all faults happen while lines are open"
        project.environment["SPARK_LINES"] = "2500"
        project.compose("up", "--detach", "--no-build", "--no-deps", "spark-lines")
        done = project.attempt("run", "--rm", "--no-TTY", "spark-verify", seconds=900)
        assert done.returncode == 0, done.stdout
        assert f"{_LINES:,} of {_LINES:,} lines acked, 0 of them dead letters\ncounts match: " in done.stdout
        for driver in project.containers(*_DRIVERS):
            assert "resolving dependencies" not in project.log(driver), "the image contains Spark's packages"

"""`acker top` beside topologies at work: its figures are those of what was done."""

import json
import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from acker_cli.cluster import Cluster as Reached
from acker_cli.running import prepare_cluster
from acker_worker.catalogue import Catalogue
from inspection.observer import Observer
from inspection.stats_log import StatsLog
from inspection.view import TopologyView
from spout_sdk import Stats, TopologyRunner
from tests.kafka.guarantee_rig import acking
from tests.kafka.sdk_rig import Cluster, Use
from tests.kafka.sdk_topologies import LINES
from tests.unit.cli.running import Acker, Run, run_acker, said
from tests.waiting import eventually
from tuple_tree.names import stats_topic

WORDS = "tests.kafka.sdk_topologies:words"
ENDLESS = "tests.kafka.sdk_topologies:endless"


@pytest.fixture
def top(tmp_path: Path, bootstrap_servers: str) -> Acker:
    def run(*arguments: str) -> Run:
        arguments = ("top", *arguments, "--bootstrap-servers", bootstrap_servers)
        return run_acker(*arguments, cwd=tmp_path, environment={"PYTHONPATH": os.getcwd()})

    return run


@pytest.fixture
def published(use: Use) -> Iterator[Callable[[str], Cluster]]:
    """Makes the topics of a topology, and publishes it for as long as the test lasts."""
    made: list[Cluster] = []

    def publish(topology: str) -> Cluster:
        cluster = use(topology)
        Catalogue(cluster.bootstrap).publish(cluster.manifest)
        made.append(cluster)
        return cluster

    yield publish
    for cluster in made:
        Catalogue(cluster.bootstrap).withdraw(cluster.manifest.topology)


def counts(component: dict[str, Any]) -> dict[str, Any]:
    """What is shown of a component that has to be what it did."""
    return {**component["totals"], **{name: component[name] for name in ("failed", "pending", "errors")}}


def told(stats: Stats) -> dict[str, Any]:
    """What a component did, as it is to be shown."""
    return {
        "emitted": stats.emitted,
        "transferred": stats.transferred,
        "executed": stats.executed,
        "acked": stats.acked,
        "failed": dict(stats.failed),
        "pending": 0,
        "errors": stats.errors,
    }


def figures(run: Run) -> dict[str, Any]:
    view = said(run)
    return {**view, "components": {each["name"]: each for each in view["components"]}}


def test_the_figures_are_those_of_what_was_done(published: Callable[[str], Cluster], top: Acker) -> None:
    cluster = published("words")
    name = cluster.manifest.topology
    with acking(cluster), TopologyRunner(WORDS, cluster.kafka) as runner:

        def is_done() -> bool:
            stats = runner.stats()
            lines, split, count = (stats[component] for component in ("lines", "split", "count"))
            done = (lines.acked, lines.pending, split.executed, count.acked)
            return done == (LINES, 0, lines.emitted, split.emitted)

        eventually(is_done, "all lines to be acked, and all processes to say so", 120)
        done, pids = runner.stats(), runner.pids()

        def is_said() -> dict[str, Any] | None:
            # Each process says how it does at a moment of its own.
            found = figures(top(name, "--once", "--json"))
            settled = (
                all(counts(found["components"][component]) == told(stats) for component, stats in done.items())
                and [found["components"][bolt]["lag"] for bolt in ("split", "count")] == [0, 0]
                and all((one["pending"], one["rebuilding"]) == (0, False) for one in found["acker"])
            )
            return found if settled else None

        found = eventually(is_said, "the figures to be those of the end", 120)
        assert found is not None
        printed = top(name, "--once")
    for component, processes in pids.items():
        said = found["components"][component]
        assert (said["tasks"], said["owned_tasks"], said["processes"]) == (2, 2, len(processes))
    lines = found["components"]["lines"]
    assert lines["totals"]["emitted"] == LINES + sum(lines["failed"].values())
    assert lines["failed"]["failed"] == LINES // 10
    assert [one["partition"] for one in found["acker"]] == [0, 1, 2]
    (worker,) = found["workers"]
    assert worker["name"].endswith(f"/{os.getpid()}")
    assert worker["partitions"] == [0, 1, 2]
    assert {one["owner"] for one in found["acker"]} == {worker["name"]}
    assert found["dead_letters"] == 0
    assert printed.returncode == 0, printed.stderr
    assert all(word in printed.stdout for word in (name, "lines", "split", "count", "ack log", worker["name"]))

    # All have said that they end, so nobody is left to wait for.
    gone = top(name, "--once")
    assert gone.returncode == 1
    assert f"no process of {name} says how it does, the last one" in gone.stderr
    assert gone.stderr.count("\n") == 1
    log, view = StatsLog(cluster.bootstrap, name), TopologyView(cluster.manifest)
    log.open(back_s=3600)
    view.feed(log.catch_up())
    log.close()
    ended = view.snapshot(view.newest_ms or 0)
    assert [component["processes"] for component in ended["components"]] == [0, 0, 0]
    assert ended["workers"] == []


def test_a_process_that_is_killed_leaves_and_its_successor_goes_on(published: Callable[[str], Cluster]) -> None:
    cluster = published("endless")
    with acking(cluster), TopologyRunner(ENDLESS, cluster.kafka) as runner:
        assert runner.wait_ready(120)
        observer = Observer(cluster.bootstrap, cluster.manifest)
        observer.open()

        def split() -> Any:
            observer.follow(0.5)
            (found,) = [each for each in observer.snapshot()["components"] if each["name"] == "split"]
            return found

        def flows() -> bool:
            found = split()
            return found["executed_per_second"] > 0 and found["process_latency"] is not None

        eventually(flows, "tuples to flow", 120)
        snapshot = observer.snapshot()
        edges = {(each["source"], each["target"]): each for each in snapshot["edges"]}
        lines = snapshot["components"][0]
        assert edges["lines", "split"]["tuples_per_second"] == lines["transferred_per_second"]
        before = split()["totals"]["executed"]
        killed = runner.kill("split")
        eventually(lambda: runner.pids()["split"] not in ([], [killed]), "another process")
        assert runner.wait_ready(120)
        # For a while the killed one is still seen, but what is more than it has told us is its successor's.
        executed = runner.stats()["split"].executed
        eventually(lambda: split()["totals"]["executed"] > executed, "what the successor did", 120)
        eventually(
            lambda: split()["processes"] == 1 and split()["owned_tasks"] == 2, "only the successor to be seen", 120
        )
        eventually(lambda: split()["executed_per_second"] > 0, "tuples to flow again", 120)
        assert split()["totals"]["executed"] >= before, "what the killed one did is not forgotten"
        observer.close()


def test_a_topology_without_its_topic_works_and_is_seen_once_it_is_there(
    published: Callable[[str], Cluster], top: Acker, capfd: pytest.CaptureFixture[str]
) -> None:
    cluster = published("endless")
    name = cluster.manifest.topology
    topic = stats_topic(name)
    cluster.delete_topic(topic)
    catalogue = Catalogue(cluster.bootstrap)
    eventually(lambda: topic not in catalogue.topics(), "the topic to be gone")
    heard: list[str] = []

    def warned() -> int:
        heard.append(capfd.readouterr().err)
        return "".join(heard).count(f"will not show this process: topic {topic} does not exist")

    for component in (None, "split"):
        # What `acker run` looks at before it starts anything.
        prepare_cluster(Reached(cluster.bootstrap, is_embedded=False), cluster.manifest, -1, component)
    with acking(cluster), TopologyRunner(ENDLESS, cluster.kafka) as runner:
        eventually(lambda: runner.stats()["lines"].acked > 0, "trees to be acked without it", 120)
        eventually(lambda: warned() == 3, "each process of a component to say so", 120)
        assert topic not in catalogue.topics(), "nobody may make it by writing to it"
        refused = top(name, "--once")
        assert refused.returncode == 1
        assert f"topic {topic} does not exist" in refused.stderr
        assert "acker topics create" in refused.stderr
        cluster.create_topics()

        def is_seen() -> bool:
            run = top(name, "--once", "--json")
            return run.returncode == 0 and all(each["processes"] for each in json.loads(run.stdout)["components"])

        eventually(is_seen, "all processes to be seen", 120)
        assert warned() == 3, "once is enough"


def test_a_topology_that_is_not_there(top: Acker) -> None:
    run = top("no-such-topology", "--once")
    assert run.returncode == 1
    assert "no topology 'no-such-topology' in acker.topologies" in run.stderr
    assert run.stderr.count("\n") == 1


def test_on_a_terminal_it_is_drawn_until_ctrl_c(published: Callable[[str], Cluster], tmp_path: Path) -> None:
    cluster = published("endless")
    ours, theirs = pty.openpty()
    servers = str(cluster.bootstrap["bootstrap.servers"])
    name = cluster.manifest.topology
    command = ["top", name, "--interval", "0.5", "--bootstrap-servers", servers]
    process = subprocess.Popen(
        [sys.executable, "-m", "acker_cli", *command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.getcwd(), "TERM": "xterm", "COLUMNS": "80", "LINES": "30"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    screen = bytearray()

    def read() -> None:
        try:
            while True:
                screen.extend(os.read(ours, 65536))
        except OSError:
            return  # nobody has the terminal open any more

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        eventually(lambda: screen.count(b"no process of") > 1, "that nobody is there, drawn twice", 120)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        reader.join(30)
    finally:
        process.kill()
        os.close(ours)
    assert b"Traceback" not in screen

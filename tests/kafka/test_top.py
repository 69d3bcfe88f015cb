"""`acker top` and the dashboard beside a running topology: their figures are those of the work that was done."""

import json
import os
import re
import signal
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from acker_cli.processes.running import check_cluster
from inspection.dashboard import DashboardServer
from inspection.dashboard.source import Source
from inspection.http_server import ServedAt
from inspection.observer import Observer
from kafka_clients.catalogue import Catalogue
from spout_sdk.statistics import Stats
from tests.kafka.sdk_rig import Source as Topics
from tests.kafka.sdk_rig import Use, in_threads
from tests.kafka.topologies import LINES
from tests.unit.cli.running import Acker, json_of, one_line, running_acker
from tests.unit.dashboard.http import TOKEN, Events, request
from tests.waiting import eventually
from tuple_tree.names import stats_topic


@pytest.fixture
def endless(use: Use) -> Iterator[Topics]:
    """A topology that is published, and does not run."""
    cluster = use("endless")
    Catalogue(cluster.bootstrap).publish(cluster.manifest)
    yield cluster
    Catalogue(cluster.bootstrap).withdraw(cluster.manifest.topology)


def shown(component: dict[str, Any]) -> dict[str, Any]:
    return {**component["totals"], **{name: component[name] for name in ("failed", "pending", "errors")}}


def done_by(stats: Stats) -> dict[str, Any]:
    return {
        "emitted": stats.emitted,
        "transferred": stats.transferred,
        "executed": stats.executed,
        "acked": stats.acked,
        "failed": dict(stats.failed),
        "pending": 0,
        "errors": stats.errors,
    }


def test_the_figures_count_the_work(use: Use, acker: Acker) -> None:
    cluster = use("words")
    name = cluster.name
    assert "no topology 'no-such-topology' in acker.topologies" in one_line(acker("top", "no-such-topology", "--once"))
    server = DashboardServer(Source(cluster.bootstrap), ServedAt(token=TOKEN), name)
    with in_threads(cluster.topology, cluster.bootstrap) as running, server:

        def is_done() -> bool:
            lines, split, count = (running.stats[component] for component in ("lines", "split", "count"))
            done = (lines.acked, lines.pending, split.executed, count.acked)
            return done == (LINES, 0, lines.emitted, split.emitted)

        eventually(is_done, "all lines to be acked")

        def is_settled(view: dict[str, Any]) -> bool:
            """Whether each component has reported the end: each does so at a moment of its own."""
            found = {each["name"]: each for each in view["components"]}
            return (
                all(shown(found[component]) == done_by(stats) for component, stats in running.stats.items())
                and [found[bolt]["lag"] for bolt in ("split", "count")] == [0, 0]
                and all((one["pending"], one["rebuilding"]) == (0, False) for one in view["acker"])
            )

        def api(what: str) -> dict[str, Any]:
            return dict(request(server.port, f"/api/{what}").json)

        def printed() -> dict[str, Any] | None:
            view: dict[str, Any] = json_of(acker("top", name, "--once", "--json"))
            return view if is_settled(view) else None

        view = eventually(printed, "the figures of the end")
        assert view is not None
        plain = acker("top", name, "--once").stdout
        eventually(lambda: is_settled(api("snapshot")), "the same on the dashboard")
        failures = api("failures")["failures"]
        history, letters, tree = (
            api(what) for what in ("history", "dead-letters", f"trace?root={failures[0]['root']}")
        )
    found = {each["name"]: each for each in view["components"]}
    assert [(each["tasks"], each["owned_tasks"], each["processes"]) for each in found.values()] == [(2, 2, 1)] * 3
    lines = found["lines"]
    assert lines["totals"]["emitted"] == LINES + sum(lines["failed"].values())
    assert lines["failed"]["failed"] == LINES // 10
    assert [one["partition"] for one in view["acker"]] == [0, 1, 2]
    (worker,) = view["workers"]
    assert worker["name"].endswith(f"/{os.getpid()}")
    assert worker["partitions"] == [0, 1, 2]
    assert {one["owner"] for one in view["acker"]} == {worker["name"]}
    assert view["dead_letters"] == 0
    assert all(word in plain for word in (name, "lines", "split", "count", "1 acker worker: 3 of 3 partitions"))
    assert {(each["reason"], each["message"]) for each in failures} == {("failed", "not yet")}
    assert len(failures) == LINES // 10
    assert (history["topology"], letters["dead_letters"]) == (name, [])
    assert failures[0]["trace"] == f"acker trace {failures[0]['root']} --topology {name}"
    assert "not yet" in json.dumps(tree)

    # Each process has reported that it ends.
    with closing(Observer(cluster.bootstrap, cluster.manifest, back_s=3600)) as observer:
        observer.read_statistics()
    last = observer.view.snapshot(0)
    assert [component["processes"] for component in last["components"]] == [0, 0, 0]
    assert last["workers"] == []
    Catalogue(cluster.bootstrap).publish(cluster.manifest)
    assert f"no process of {name} reports statistics, the last one" in one_line(acker("top", name, "--once"))
    Catalogue(cluster.bootstrap).withdraw(name)


@pytest.mark.exhaustive
def test_a_topology_is_shown_as_soon_as_its_stats_topic_exists(
    endless: Topics, acker: Acker, caplog: pytest.LogCaptureFixture
) -> None:
    name, catalogue = endless.manifest.topology, Catalogue(endless.bootstrap)
    topic = stats_topic(name)
    endless.delete_topic(topic)
    eventually(lambda: topic not in catalogue.topics(), "the topic to be gone")
    # What `acker run` checks before it starts anything.
    check_cluster(endless.bootstrap, endless.manifest)
    warning = f"will not show this process: topic {topic} does not exist"
    with in_threads(endless.topology, endless.bootstrap) as running:
        eventually(lambda: running.stats["lines"].acked, "trees to be acked without it")
        eventually(lambda: warning in caplog.text, "a warning")
        assert topic not in catalogue.topics(), "no write may create it"
        refused = one_line(acker("top", name, "--once"))
        assert f"topic {topic} does not exist" in refused
        assert "acker topics create" in refused
        endless.create_topics()

        def is_shown() -> bool:
            run = acker("top", name, "--once", "--json")
            return run.returncode == 0 and all(each["processes"] for each in json.loads(run.stdout)["components"])

        eventually(is_shown, "all components to be shown", 120)
    assert caplog.text.count(warning) == 1, "all are in this process, which logs equal lines once"


def test_a_dashboard_that_cannot_start_prints_one_line(endless: Topics, acker: Acker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        refused = one_line(acker("dashboard", "--port", port))
    assert f"port {port}: " in refused
    assert "--port" in refused
    refused = one_line(acker("dashboard", "--topology", "nowhere", "--port", "0"))
    assert "no topology 'nowhere'" in refused
    assert endless.manifest.topology in refused


@pytest.mark.exhaustive
def test_the_dashboard_is_served_until_it_is_stopped(endless: Topics, tmp_path: Path) -> None:
    """Also while a browser reads events, whose stream would never end; `--open` gives the browser the token."""
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    browser.chmod(0o755)
    environment = {
        "ACKER_KAFKA__BOOTSTRAP_SERVERS": str(endless.bootstrap["bootstrap.servers"]),
        "BROWSER": str(browser),
        "ACKER_DASHBOARD__TOKEN": TOKEN,
    }
    arguments = ("dashboard", "--topology", endless.manifest.topology, "--host", "0.0.0.0", "--port", "0", "--open")
    with running_acker(*arguments, cwd=tmp_path, environment=environment) as command:
        command.wait_for_output()
        command.wait_for("other machines open it by an address of this one")
        eventually(lambda: opened.exists() and opened.read_text().strip(), "the browser")
        assert opened.read_text() == command.out[0]
        (port,) = re.findall(rf":(\d+)/\?token={TOKEN}$", opened.read_text(), re.MULTILINE)
        events = Events(int(port), "/api/events", {"Authorization": f"Bearer {TOKEN}"})
        assert events.next() is not None
        command.process.send_signal(signal.SIGINT)
        assert command.ended() == 130
        while events.next() is not None:
            pass
        events.close()
        assert "Traceback" not in command.output

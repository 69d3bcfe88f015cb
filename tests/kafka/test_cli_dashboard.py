"""`acker dashboard` as a command: what it prints, how it ends, what it complains of."""

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from acker_worker.catalogue import Catalogue
from tests.kafka.sdk_rig import Cluster, Use
from tests.unit.cli.running import PATIENCE, running_acker
from tests.unit.dashboard.http import Events, request
from tests.waiting import eventually


@pytest.fixture
def cluster(use: Use) -> Cluster:
    cluster = use("words")
    Catalogue(cluster.bootstrap).publish(cluster.manifest)
    return cluster


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_it_serves_until_it_is_stopped(cluster: Cluster, tmp_path: Path, number: signal.Signals, code: int) -> None:
    """Also while a browser is open, which would never let go."""
    name = cluster.manifest.topology
    environment = {"ACKER_KAFKA__BOOTSTRAP_SERVERS": str(cluster.bootstrap["bootstrap.servers"])}
    with running_acker(
        "dashboard", "--topology", name, "--port", "0", cwd=tmp_path, environment=environment
    ) as command:
        command.wait_for_output()
        (port,) = re.findall(r"^http://127\.0\.0\.1:(\d+)/$", "".join(command.out), re.MULTILINE)
        assert request(int(port), "/api/snapshot").json["topology"] == name
        events = Events(int(port), "/api/events")
        assert events.next() is not None
        command.process.send_signal(number)
        assert command.ended() == code
        while events.next() is not None:
            pass
        events.close()
        assert "Traceback" not in command.said


def test_it_opens_the_browser_with_the_token(cluster: Cluster, tmp_path: Path) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/opened\n')
    browser.chmod(0o755)
    environment = {
        "ACKER_KAFKA__BOOTSTRAP_SERVERS": str(cluster.bootstrap["bootstrap.servers"]),
        "BROWSER": str(browser),
        "ACKER_DASHBOARD__TOKEN": "a-token-of-our-own",
    }
    everywhere = ("--host", "0.0.0.0", "--port", "0")
    with running_acker("dashboard", *everywhere, "--open", cwd=tmp_path, environment=environment) as command:
        command.wait_for_output()
        command.wait_for("other machines open it by an address of this one")
        eventually((tmp_path / "opened").exists, "the browser", PATIENCE)
        eventually(lambda: (tmp_path / "opened").read_text().strip(), "what was opened", PATIENCE)
        assert (tmp_path / "opened").read_text() == command.out[0]
        assert command.out[0].endswith("/?token=a-token-of-our-own\n")


def complaint(*arguments: str, cwd: Path) -> str:
    """The one line of an error."""
    run = subprocess.run(
        [sys.executable, "-m", "acker_cli", "dashboard", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert run.returncode == 1, run.stderr
    assert run.stdout == ""
    assert run.stderr.count("\n") == 1, run.stderr
    return run.stderr


def test_a_port_that_is_taken(cluster: Cluster, tmp_path: Path) -> None:
    servers = str(cluster.bootstrap["bootstrap.servers"])
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        said = complaint("--bootstrap-servers", servers, "--port", port, cwd=tmp_path)
    assert f"port {port}: " in said
    assert "--port" in said


def test_a_topology_that_is_not_there(cluster: Cluster, tmp_path: Path) -> None:
    servers = str(cluster.bootstrap["bootstrap.servers"])
    said = complaint("--bootstrap-servers", servers, "--topology", "nowhere", cwd=tmp_path)
    assert "no topology 'nowhere'" in said
    assert cluster.manifest.topology in said

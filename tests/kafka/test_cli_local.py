"""Commands with an embedded broker: they end cleanly, and nothing outlives them."""

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from acker_worker.catalogue import Catalogue
from tests.kafka.cli_rig import ROOT
from tests.kafka.sdk_rig import Use
from tests.unit.cli.running import PATIENCE, descendants, is_alive, running_acker
from tests.waiting import eventually

pytestmark = pytest.mark.exhaustive

# Makes standard input the controlling terminal of the new session, as a shell would.
_IN_A_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.fixture
def first_topology(tmp_path: Path) -> Path:
    """A working directory with the topology of the README."""
    (block,) = re.findall(r"```python\n(# first\.py\n.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (tmp_path / "first.py").write_text(block)
    return tmp_path


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_the_topology_of_the_readme_runs_until_it_is_stopped(
    first_topology: Path, number: signal.Signals, code: int
) -> None:
    with running_acker("run", "first:topology", "--local", cwd=first_topology) as command:
        command.wait_until(lambda: bool(re.search(r"acked [1-9].*failed [1-9].*replayed [1-9]", command.said)), "acks")
        assert command.end(number) == code
        assert "Traceback" not in command.said


@pytest.mark.parametrize("arguments", [("run", "first:topology", "--local", "--processes", "bill=2"), ("demo",)])
def test_nothing_outlives_a_command_that_is_killed(first_topology: Path, arguments: tuple[str, ...]) -> None:
    environment = {"TMPDIR": str(first_topology)}
    with running_acker(*arguments, cwd=first_topology, environment=environment) as command:
        command.wait_until(lambda: bool(re.search(r"acked [1-9]", command.said)), "acks")
        assert command.end(signal.SIGKILL) == -signal.SIGKILL


def test_a_demo_cleans_up_after_ctrl_c(tmp_path: Path) -> None:
    with running_acker("demo", "--json", cwd=tmp_path, environment={"TMPDIR": str(tmp_path)}) as command:
        command.wait_until(lambda: bool(re.search(r"acked [1-9]", command.said)), "acks")
        assert list(tmp_path.glob("acker-demo-*"))
        assert command.end(signal.SIGINT) == 130
        assert command.out == []
        assert "Traceback" not in command.said
    assert list(tmp_path.iterdir()) == []


def test_a_demo_that_takes_too_long_says_what_is_pending(tmp_path: Path) -> None:
    with running_acker("demo", "--deadline", "1", "--keep", "counts", cwd=tmp_path) as command:
        assert command.ended() == 1
        for text in ("given up after 1 s", "pending", "counts differ"):
            assert text in command.said
        assert (tmp_path / "counts").is_dir()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_the_broker_in_the_foreground(tmp_path: Path, number: signal.Signals, code: int) -> None:
    with running_acker("kafka", cwd=tmp_path) as command:
        command.wait_for("export ACKER_KAFKA__BOOTSTRAP_SERVERS=")
        command.wait_for_output()
        assert re.fullmatch(r"127\.0\.0\.1:\d+\n", command.out[0])
        assert command.end(number) == code
        assert "Traceback" not in command.said


@contextmanager
def on_a_terminal(*arguments: str, cwd: Path) -> Iterator[tuple[subprocess.Popen[bytes], int, bytearray]]:
    """A command whose terminal is ours: the process, the file descriptor of the other end, and what was written."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", _IN_A_TERMINAL, sys.executable, "-m", "acker_cli", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "120", "LINES": "40"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    screen = bytearray()

    def read() -> None:
        with contextlib.suppress(OSError):  # when every process has closed the terminal
            while True:
                screen.extend(os.read(ours, 65536))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    with process:
        try:
            yield process, ours, screen
            reader.join(30)
        finally:
            process.kill()
    os.close(ours)
    assert b"Traceback" not in screen


def test_on_a_terminal_there_is_a_table_and_ctrl_c_reaches_all_processes(first_topology: Path) -> None:
    """The terminal sends SIGINT to all processes of its foreground group, children included."""
    arguments = ("run", "first:topology", "--local", "--set", "log_level=warning")
    with on_a_terminal(*arguments, cwd=first_topology) as (process, terminal, screen):
        eventually(lambda: b"tuples/s" in screen and b"bill" in screen, "a table")
        family = descendants(process.pid)
        os.write(terminal, b"\x03")
        assert process.wait(PATIENCE) == 130
        eventually(lambda: not any(map(is_alive, family)), "all its children are gone", 30)


def test_top_is_drawn_until_ctrl_c(use: Use, tmp_path: Path) -> None:
    cluster = use("endless")
    name, catalogue = cluster.manifest.topology, Catalogue(cluster.bootstrap)
    catalogue.publish(cluster.manifest)
    servers = ("--bootstrap-servers", str(cluster.bootstrap["bootstrap.servers"]))
    with on_a_terminal("top", name, "--interval", "0.5", *servers, cwd=tmp_path) as (process, terminal, screen):
        eventually(lambda: screen.count(b"no process of") > 1, "two drawings")
        os.write(terminal, b"\x03")
        assert process.wait(PATIENCE) == 0
    catalogue.withdraw(name)

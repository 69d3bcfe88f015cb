"""Commands with an embedded broker: they end cleanly, and nothing outlives them."""

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.unit.cli.running import PATIENCE, descendants, is_alive, running_acker, wait_until

README = Path(__file__).parents[2] / "README.md"


@pytest.fixture
def first_topology(tmp_path: Path) -> Path:
    """A working directory with the topology of the README."""
    blocks = re.findall(r"```python\n(# first\.py\n.*?)```", README.read_text(), re.DOTALL)
    assert len(blocks) == 1
    (tmp_path / "first.py").write_text(blocks[0])
    return tmp_path


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_the_topology_of_the_readme_runs_until_it_is_stopped(
    first_topology: Path, number: signal.Signals, code: int
) -> None:
    with running_acker("run", "first:topology", "--local", cwd=first_topology) as command:
        command.wait_until(lambda: bool(re.search(r"acked [1-9].*failed [1-9].*replayed [1-9]", command.said)), "acks")
        assert command.end(number) == code
        assert "Traceback" not in command.said


def test_nothing_outlives_a_command_that_is_killed(first_topology: Path) -> None:
    with running_acker("run", "first:topology", "--local", "--processes", "bill=2", cwd=first_topology) as command:
        command.wait_until(lambda: bool(re.search(r"acked [1-9]", command.said)), "acks")
        assert command.end(signal.SIGKILL) == -signal.SIGKILL


def test_nothing_outlives_a_demo_that_is_killed(tmp_path: Path) -> None:
    with running_acker("demo", cwd=tmp_path, environment={"TMPDIR": str(tmp_path)}) as command:
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
        assert "given up after 1 s" in command.said
        assert "pending" in command.said
        assert "counts differ" in command.said
        assert (tmp_path / "counts").is_dir()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_the_broker_in_the_foreground(tmp_path: Path, number: signal.Signals, code: int) -> None:
    with running_acker("kafka", cwd=tmp_path) as command:
        command.wait_for("export ACKER_KAFKA__BOOTSTRAP_SERVERS=")
        command.wait_for_output()
        assert re.fullmatch(r"127\.0\.0\.1:\d+\n", command.out[0])
        assert command.end(number) == code
        assert "Traceback" not in command.said


def test_on_a_terminal_there_is_a_table_and_ctrl_c_reaches_everybody(first_topology: Path) -> None:
    """The terminal sends SIGINT to all processes of its foreground group, children included."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
    command = [sys.executable, "-m", "acker_cli", "run", "first:topology", "--local", "--set", "log_level=warning"]
    process = subprocess.Popen(
        [sys.executable, "-c", _IN_A_TERMINAL, *command],
        cwd=first_topology,
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    screen = bytearray()

    def read() -> None:
        with contextlib.suppress(OSError):  # once nobody has the terminal open any more
            while True:
                screen.extend(os.read(ours, 65536))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    with process:
        try:
            wait_until(lambda: b"tuples/s" in screen and b"bill" in screen, "a table")
            family = descendants(process.pid)
            os.write(ours, b"\x03")
            assert process.wait(PATIENCE) == 130
            wait_until(lambda: not any(map(is_alive, family)), "all its children are gone", 30)
            reader.join(30)
        finally:
            process.kill()
    os.close(ours)
    assert b"Traceback" not in screen


# Makes standard input the controlling terminal of the new session, as a shell would.
_IN_A_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""

"""Commands with an embedded broker: they end cleanly, with all child processes."""

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

from tests.pages import ROOT
from tests.unit.cli.running import PATIENCE, call_acker, descendants, is_alive, running_acker
from tests.waiting import eventually

pytestmark = pytest.mark.exhaustive

# Makes standard input the controlling terminal of the new session, as a shell would.
_IN_A_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


ORDERS = ('{"id": "1", "items": ["tea", "milk"]}\n', '{"id": "2", "items": ["tea", "sugar"]}\n')

CLICKS = """
from spout_sdk import KafkaBolt, KafkaSpout, TopologyBuilder
builder = TopologyBuilder("clicks")
builder.set_spout("read", KafkaSpout("clicks"))
builder.set_bolt("write", lambda: KafkaBolt("clicks", value=["value"], codec="bytes")).shuffle_grouping("read")
builder.set_bolt("copy", lambda: KafkaBolt("copies")).shuffle_grouping("read")
topology = builder.build()
"""


@pytest.fixture
def first_steps(tmp_path: Path) -> Path:
    """A working directory with the program of the README."""
    (block,) = re.findall(r"```python\n(# shop\.py\n.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (tmp_path / "shop.py").write_text(block)
    (tmp_path / "orders.txt").write_text("".join(ORDERS))
    return tmp_path


def test_child_processes_end_with_a_killed_command(first_steps: Path) -> None:
    arguments = ("run", "shop:shop", "--local", "--feed", "orders=orders.txt", "--processes", "3")
    with running_acker(*arguments, cwd=first_steps, environment={"TMPDIR": str(first_steps)}) as command:
        command.wait_until(lambda: bool(re.search(r"acked [1-9]", command.output)), "acks")
        assert command.end(signal.SIGKILL) == -signal.SIGKILL


def test_a_demo_cleans_up_after_ctrl_c(tmp_path: Path) -> None:
    with running_acker("demo", "--json", cwd=tmp_path, environment={"TMPDIR": str(tmp_path)}) as command:
        command.wait_until(lambda: bool(re.search(r"acked [1-9]", command.output)), "acks")
        assert command.end(signal.SIGINT) == 130
        assert command.out == []
        assert "Traceback" not in command.output
    assert list(tmp_path.iterdir()) == []


def test_the_broker_in_the_foreground(tmp_path: Path) -> None:
    with running_acker("kafka", cwd=tmp_path) as command:
        command.wait_for("export ACKER_KAFKA__BOOTSTRAP_SERVERS=")
        command.wait_for_output()
        assert re.fullmatch(r"127\.0\.0\.1:\d+\n", command.out[0])
        assert command.end(signal.SIGINT) == 130
        assert "Traceback" not in command.output


@contextmanager
def on_a_terminal(*arguments: str, cwd: Path) -> Iterator[tuple[subprocess.Popen[bytes], int, bytearray]]:
    """A command on a pseudo-terminal: the process, the file descriptor of the other end, and the output."""
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


def test_on_a_terminal_there_is_a_table_and_ctrl_c_reaches_all_processes(first_steps: Path) -> None:
    """The terminal sends SIGINT to all processes of its foreground group, children included."""
    arguments = ("run", "shop:shop", "--local", "--feed", "orders=orders.txt", "--set", "log_level=warning")
    with on_a_terminal(*arguments, cwd=first_steps) as (process, terminal, screen):
        eventually(lambda: b"emit/s" in screen and b"ship" in screen, "a table")
        family = descendants(process.pid)
        os.write(terminal, b"\x03")
        assert process.wait(PATIENCE) == 130
        eventually(lambda: not any(map(is_alive, family)), "all its children are gone", 30)


def test_source_and_target_topics_are_created_and_fed(tmp_path: Path) -> None:
    (tmp_path / "clicks.py").write_text(CLICKS)
    (tmp_path / "lines.jsonl").write_bytes(b'{"n": 1}\r\n{"n": 2}\n{"n": 3}')
    for feed, problem in {
        "clicks": "--feed takes TOPIC=FILE",
        "visits=lines.jsonl": "no spout of topology clicks reads topic visits; it reads clicks",
        "clicks=none.jsonl": "there is no file none.jsonl",
    }.items():
        refused = call_acker("run", "clicks:topology", "--local", "--feed", feed, cwd=tmp_path)
        assert problem in refused.stderr
    with running_acker("run", "clicks:topology", "--local", "--feed", "clicks=lines.jsonl", cwd=tmp_path) as command:
        # What is read is written to the same topic, so it never ends.
        command.wait_until(lambda: bool(re.search(r"acked [1-9]\d", command.output)), "acks")
        command.wait_until(lambda: "fed 3 messages into clicks" in " ".join(command.out), "the file to be written")
        assert command.end(signal.SIGINT) in (0, 130)


def test_a_new_project_runs_and_starts_again_when_it_is_saved(tmp_path: Path) -> None:
    assert call_acker("init", "shop", cwd=tmp_path).returncode == 0
    arguments = ("run", "shop:shop", "--local", "--reload", "--feed", "orders=orders.jsonl", "--processes", "1")
    with running_acker(*arguments, cwd=tmp_path / "shop") as command:
        command.wait_until(lambda: bool(re.search(r"acked 2, failed [1-9]", command.output)), "two orders are acked")
        module = tmp_path / "shop" / "shop.py"
        module.write_text(module.read_text().replace('"milk"}', '"milk", "sugar"}'))
        command.wait_until(
            lambda: "acked 1, failed 0" in "".join(command.out).partition("shop.py changed: starting again")[2],
            "the order with sugar, which was open, is acked",
        )
        assert command.end(signal.SIGINT) == 130

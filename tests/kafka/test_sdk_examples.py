"""Whole programs: the steps of the tutorial, and examples with the commands of the documentation."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from examples.kafka_spout_word_count import MESSAGES
from examples.running_totals import CUSTOMERS, KILLS, PART
from examples.send_and_wait import ORDERS, PRICES
from examples.word_count import LINES
from tests.pages import commands, pasted
from tests.unit.cli.running import RunningAcker, command_line, descendants, run_acker, running_acker

pytestmark = pytest.mark.exhaustive

TUTORIAL = "docs/tutorial.md"


def last_line(*command: str) -> str:
    run = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout.splitlines()[-1]


def test_no_order_is_billed_twice_although_processes_are_killed() -> None:
    line = last_line("examples.exactly_once", "--orders", "4000", "--kills", "3")
    assert line == "4000 orders, 4000 bills: 0 missing, 0 repeated"


def test_each_order_is_in_its_total_once_although_processes_are_killed() -> None:
    orders = (KILLS + 1) * PART
    line = last_line("examples.running_totals")
    assert line == f"{orders:,} orders, {orders:,} counted; 0 of {CUSTOMERS} customers have a wrong total"


def test_each_click_is_in_its_minute_once_although_processes_are_killed() -> None:
    assert last_line("examples.clicks") == "20,140 lines, 175 results: 0 wrong, 0 clicks late"


def test_the_words_of_a_topic_are_counted() -> None:
    blank = MESSAGES // 100
    words = sum(len(LINES[number % len(LINES)].split()) for number in range(MESSAGES) if number % 100)
    line = last_line("examples.kafka_spout_word_count")
    assert line == f"{MESSAGES - blank:,} lines acked, {blank} skipped, {words:,} words counted"


def test_each_order_that_is_sent_gets_its_price() -> None:
    euros = sum(PRICES["pears"] * number for number in range(ORDERS))
    assert last_line("examples.send_and_wait") == f"{ORDERS:,} orders of pears: {euros:,.2f} euros"


def processes_of(pid: int) -> set[int]:
    """The child processes of a command that match the tutorial's `pkill -f`."""
    command = re.compile(r"spout_sdk\.runtime\.process flaky:topology")
    return {each for each in descendants(pid) if command.search(command_line(each))}


class Reader:
    """Follows the tutorial: pastes its files, and enters its commands.

    Args:
        directory: where.
    """

    def __init__(self, directory: Path) -> None:
        pasted(TUTORIAL, directory)
        self.directory = directory
        self.environment = {"ACKER_DASHBOARD__PORT": "0"}
        self._lines = commands(TUTORIAL)

    def line(self, begin: str) -> list[str]:
        """The words of the command that begins so, without the first."""
        found = [line for line in self._lines if line.startswith(begin)][-1]
        return found.removesuffix(" &").split()[1:]

    def starts(self, begin: str) -> AbstractContextManager[RunningAcker]:
        """Starts a command of `acker` that keeps running."""
        return running_acker(*self.line(begin), cwd=self.directory, environment=self.environment)

    def runs(self, begin: str) -> str:
        """Runs a command of `acker` to its end, and returns its output."""
        run = run_acker(*self.line(begin), cwd=self.directory, environment=self.environment)
        assert run.returncode == 0, run.stderr
        return run.stdout

    def writes_lines(self) -> None:
        """Writes the messages to a file, by the tutorial's command."""
        assert self.line("python lines.py") == ["lines.py", ">", "lines.txt"]
        (self.directory / "lines.txt").write_text(self.python("lines.py"))

    def python(self, *arguments: str) -> str:
        """Runs Python to its end, and returns its output."""
        run = subprocess.run(
            [sys.executable, *arguments], cwd=self.directory, capture_output=True, text=True, timeout=280, check=False
        )
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout


def test_the_tutorial_shows_failures_and_survives_a_kill(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    assert "3 passed" in reader.python("-m", "pytest", *reader.line("pytest"))
    reader.writes_lines()
    with reader.starts("acker run flaky:topology") as command:
        seen = re.compile(r"acked [1-9].*failed [1-9]")
        command.wait_until(lambda: bool(seen.search(command.output)), "acks and failures")
        command.wait_for("dashboard at http://127.0.0.1:")
        pid = min(processes_of(command.process.pid))
        os.kill(pid, signal.SIGKILL)
        command.wait_for("was killed by SIGKILL; restarting")
        command.wait_until(lambda: bool(processes_of(command.process.pid) - {pid}), "another process")
        assert command.end(signal.SIGTERM) == 0


def test_the_pipeline_of_the_tutorial_runs(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    assert {"python fill.py", "python results.py"} <= {*commands(TUTORIAL)}
    servers = "127.0.0.1:9092"
    assert reader.line("export") == [f"ACKER_KAFKA__BOOTSTRAP_SERVERS={servers}"]
    with running_acker(*reader.line("acker kafka")[:1], cwd=tmp_path) as kafka:
        kafka.wait_for_output()
        # The reader's 9092 may be in use here.
        here = kafka.out[0].strip()
        for name in ("fill.py", "results.py"):
            text = (tmp_path / name).read_text()
            assert servers in text
            (tmp_path / name).write_text(text.replace(servers, here))
        reader.environment["ACKER_KAFKA__BOOTSTRAP_SERVERS"] = here
        reader.runs("acker topics create")
        reader.writes_lines()
        reader.python("fill.py")
        with reader.starts("acker worker") as worker, reader.starts("acker run readings") as command:
            command.wait_until(lambda: "acked 1,001" in command.output, "all lines to be acked")
            assert "readings" in reader.runs("acker top ")
            assert "unplugged" in reader.runs("acker dead-letters")
            assert "99.9" in reader.runs("acker state")
            with reader.starts("acker dashboard") as dashboard:
                dashboard.wait_for_output()
                assert "/?token=" in dashboard.out[0]
            results = [json.loads(line) for line in reader.python("results.py").splitlines()]
            assert {one["sensor"]: one["celsius"] for one in results} == {
                "sensor-0": 99.9,
                "sensor-1": 99.7,
                "sensor-2": 99.8,
            }
            assert command.end(signal.SIGINT) == 130
            worker.process.send_signal(signal.SIGINT)
            assert worker.ended() == 130

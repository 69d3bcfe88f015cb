"""Whole programs: the tutorial as a reader follows it, and examples as the commands that stand in the documentation."""

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from examples.kafka_spout_word_count import MESSAGES
from examples.word_count import LINES
from tests.pages import blocks
from tests.unit.cli.running import descendants, running_acker

pytestmark = pytest.mark.exhaustive


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
    said = last_line("examples.exactly_once", "--orders", "4000", "--kills", "3")
    assert said == "4000 orders, 4000 bills: 0 missing, 0 repeated"


def test_the_words_of_a_topic_are_counted() -> None:
    blank = MESSAGES // 100
    words = sum(len(LINES[number % len(LINES)].split()) for number in range(MESSAGES) if number % 100)
    said = last_line("examples.kafka_spout_word_count")
    assert said == f"{MESSAGES - blank:,} lines acked, {blank} skipped, {words:,} words counted"


def processes_of(pid: int, component: str) -> set[int]:
    """Those that `pkill -f` finds by what the tutorial says, among what a command has started."""
    command = re.compile(rf"spout_sdk\.process readings:topology {component}\b")
    found: set[int] = set()
    for each in descendants(pid):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            if command.search(Path(f"/proc/{each}/cmdline").read_bytes().replace(b"\0", b" ").decode()):
                found.add(each)
    return found


def test_the_tutorial_replays_what_fails_and_survives_a_kill(tmp_path: Path) -> None:
    parts = blocks("docs/tutorial.md")
    flaky = next(block for block in parts if "class Flaky" in block)
    topology = next(block for block in parts if "builder.set_bolt" in block)
    parts = [*parts[: parts.index(topology)], flaky, topology.replace('"parse", Parse', '"parse", Flaky')]
    (tmp_path / "readings.py").write_text("\n\n".join(parts))
    with running_acker("run", "readings:topology", "--local", cwd=tmp_path) as command:
        seen = re.compile(r"acked [1-9].*failed [1-9].*replayed [1-9]")
        command.wait_until(lambda: bool(seen.search(command.said)), "acks, failures and replays")
        command.wait_for("the cable is loose")
        (pid,) = processes_of(command.process.pid, "parse")
        os.kill(pid, signal.SIGKILL)
        command.wait_for("was killed by SIGKILL; restarting")
        command.wait_until(lambda: processes_of(command.process.pid, "parse") not in (set(), {pid}), "another process")
        assert command.end(signal.SIGTERM) == 0

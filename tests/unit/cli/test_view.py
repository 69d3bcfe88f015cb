"""Snapshots as text and as a table, and progress of long requests."""

import io
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from acker_cli.console import standard_output
from acker_cli.errors import SettingsError
from acker_cli.processes.running import RunPlan
from acker_cli.views import live
from acker_cli.views.live import PLAIN_SECONDS, TopologySnapshot, View, drawn, in_words, open_view
from acker_worker.stats import WorkerStats
from spout_sdk import LatencyHistogram, Stats, Topology
from spout_sdk.statistics.state_stats import StateStats
from tests.manifests import manifest, spout
from tests.pages import ROOT
from tests.unit.cli.running import call_acker


def snapshot() -> TopologySnapshot:
    latency = LatencyHistogram()
    latency.record(0.1)
    failed = {"timeout": 7, "failed": 93}
    spout = Stats("lines", (1,), (0, 1), emitted=1200, acked=1000, failed=failed, complete_latency=latency)
    split = Stats("split", pids=(2, 3), tasks=(0, 1), executed=2345, acked=2300, failed={"failed": 45})
    return TopologySnapshot(
        seconds=3.25,
        spouts=frozenset({"lines"}),
        components={"lines": spout, "split": split},
        rate=9876.5,
        acker_pids=(4, 5),
        ackers=WorkerStats(partitions=8, pending=99, orphans=3),
        lines=(1000, 4000),
    )


def test_a_line_and_the_table_have_all_figures() -> None:
    line = in_words(snapshot())
    for part in ("1,000 of 4,000 lines", "failed 100 (by a bolt: 93, timeout: 7)", "9,876 tuples/s", "p50 102 ms"):
        assert part in line
    # Zero milliseconds would be wrong before a tree is acked.
    assert in_words(TopologySnapshot(2.0, frozenset(), {})).endswith("complete latency -")
    out = io.StringIO()
    Console(file=out, width=120).print(drawn(snapshot()))
    for part in ("split", "2,345", "by a bolt: 93, timeout: 7", "2 acker workers: 8 partitions, 99 open trees"):
        assert part in out.getvalue()


def test_without_a_terminal_lines_come_every_few_seconds() -> None:
    now, out = 0.0, io.StringIO()
    console = standard_output()
    console.file, console.width = out, 1000
    with open_view(console):
        assert out.getvalue() == ""
    view = View(console, clock=lambda: now)
    for step in range(20):
        now = step * PLAIN_SECONDS / 5
        view.show(snapshot())
    view.note("killed [bold] 17")
    lines = out.getvalue().splitlines()
    assert len(lines) == 4
    assert lines[-1] == "killed [bold] 17"


_NOISY = """
import sys

from kafka_clients.supervision import read_launch

read_launch()
print("child: " + "long " * 30 + "end", file=sys.stderr)
print("child: printed")
"""
_LOUD = """
import logging

from acker_cli.console import log_to_stderr, standard_output
from acker_cli.views.live import TopologySnapshot, open_view
from kafka_clients.supervision import ChildProcess, start_early

log_to_stderr("info", brief=True)
with open_view(standard_output()) as view:
    start_early(("noisy",), 1)
    view.note("note")
    view.show(TopologySnapshot(1.0, frozenset(), {}))
    ChildProcess(("noisy",), {}).launch({}).wait()
    logging.info("own log")
    print("own print")
    view.show(TopologySnapshot(2.0, frozenset(), {}))
print("afterwards")
"""


def at_terminal(code: str, directory: Path) -> list[str]:
    """The lines that a terminal shows in the end of both streams of a program."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{directory}", "TERM": "xterm", "COLUMNS": "80"}
    with subprocess.Popen([sys.executable, "-c", code], stdin=theirs, stdout=theirs, stderr=theirs, env=environment):
        os.close(theirs)
        output = b""
        with open(ours, "rb", buffering=0) as terminal, suppress(OSError):  # so Linux reports the end of the other side
            while read := terminal.read(1 << 16):
                output += read
    return shown(output.decode())


def shown(output: str) -> list[str]:
    """The lines of a terminal without a margin: interprets line ends, cursor up, and the deletion of a line."""
    lines, row, column = [""], 0, 0
    for control, parameter, final, text in re.findall(r"(\r|\n)|\x1b\[([0-9;?]*)([A-Za-z])|([^\x1b\r\n]+)", output):
        if control == "\n":
            row += 1
            lines += [""] * (row == len(lines))
        elif control == "\r":
            column = 0
        elif final == "A":
            row -= int(parameter or 1)
        elif final == "K":
            lines[row] = ""
        elif text:
            before = lines[row].ljust(column)
            lines[row] = before[:column] + text + before[column + len(text) :]
            column += len(text)
    return [line.rstrip() for line in lines]


def test_output_of_all_processes_appears_whole_above_the_table(tmp_path: Path) -> None:
    """Also that of processes that were started before the table was shown, as those of `acker run --local` are."""
    (tmp_path / "noisy.py").write_text(_NOISY)
    note, *output, table, empty, figures, afterwards, end = at_terminal(_LOUD, tmp_path)
    assert (note, empty, afterwards, end) == ("note", "", "afterwards", "")
    assert output == ["child: " + "long " * 30 + "end", "child: printed", "own log", "own print"]
    assert table.startswith("component  processes")
    assert figures.startswith("2 s  0 tuples/s")


@pytest.mark.parametrize("command", [["run", "acker_cli.demo.word_count:topology", "--local"], ["demo"]])
def test_the_view_opens_before_any_process_starts(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has started keeps the standard error that it was given."""
    done: list[str] = []

    @contextmanager
    def opened(console: Console) -> Iterator[View]:
        done.append("view")
        yield View(console)

    def started(_plan: RunPlan) -> None:
        done.append("processes")
        raise SettingsError("enough")

    monkeypatch.setattr(live, "open_view", opened)
    monkeypatch.setattr(RunPlan, "start_early", started)
    assert "enough" in call_acker(*command).stderr
    assert done == ["view", "processes"]


def test_a_run_names_the_guarantee_of_each_state_that_it_has() -> None:
    topology = Topology(manifest(spout("lines")), {}, state_guarantees={"count": "each message once", "sum": "twice"})
    assert RunPlan(topology, "module:topology").guarantees == {"count": "each message once", "sum": "twice"}
    assert RunPlan(topology, "module:topology", "sum").guarantees == {"sum": "twice"}
    assert RunPlan(topology, "module:topology", "lines").guarantees == {}


def test_a_run_shows_the_restore_of_a_state() -> None:
    state = StateStats(restoring=(0, 2), restore_records_per_second=312_000.0, restore_left=55, restore_total=100)
    components = {"lines": Stats("lines", (1,)), "count": Stats("count", (2,), state=state)}
    snapshot = TopologySnapshot(1.0, frozenset({"lines"}), components)
    expected = "count: restoring 45 % of tasks 0, 2, 312,000 records/s"
    assert in_words(snapshot).endswith(f", {expected}")
    out = io.StringIO()
    Console(file=out, width=100).print(drawn(snapshot))
    assert expected in out.getvalue()
    done = replace(snapshot, components={"count": Stats("count", (2,), state=StateStats())})
    assert "restoring" not in in_words(done)

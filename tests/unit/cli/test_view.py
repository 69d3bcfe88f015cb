"""Snapshots as text and as a table, and progress of long requests."""

import io
import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from unittest.mock import Mock

from rich.console import Console

from acker_cli.console import standard_output
from acker_cli.processes.own_figures import OwnFigures
from acker_cli.views.live import PLAIN_SECONDS, View, in_words, open_view
from acker_cli.views.screen import screen
from acker_worker.stats import PartitionStats, WorkerStats
from inspection.view import Snapshot
from spout_sdk.statistics import LatencyHistogram, Stats
from spout_sdk.statistics.state_stats import StateStats
from tests.manifests import counting, manifest, spout
from tests.pages import ROOT


def snapshot(state: StateStats | None = None) -> Snapshot:
    """The figures of processes that have run for three seconds."""
    took = LatencyHistogram()
    took.record(0.1)
    failed = {"timeout": 7, "failed": 93}
    lines = Stats("lines", (1,), (0,), emitted=1200, acked=1000, failed=failed, complete_latency=took)
    split = Stats("split", pids=(2, 3), tasks=(0,), executed=2400, acked=2300, failed={"failed": 45}, state=state)
    owned = PartitionStats(0, pending=99, orphans=3)
    ackers = Mock(latest=lambda: {4: WorkerStats(partitions=1, by_partition=(owned,)), 5: WorkerStats()})
    components = spout("lines"), counting("split", "lines"), counting("elsewhere", "lines")
    figures = OwnFigures(manifest(*components), ackers, Mock(side_effect=[100.0, 103.0]))
    found, _ = figures.read({"lines": lines, "split": split})
    return found


def test_a_run_shows_the_figures_of_its_own_processes() -> None:
    line = in_words(snapshot(), 3.25, (1000, 4000))
    failed = "failed 100 (by a bolt: 93, timeout: 7)"
    for part in ("  3.2 s  1,000 of 4,000 lines", failed, "800 tuples/s", "p50 102 ms"):
        assert part in line
    # Zero milliseconds would be wrong before a tree is acked.
    nothing, _ = OwnFigures(manifest(spout("lines")), Mock(latest=dict)).read({"lines": Stats("lines")})
    assert in_words(nothing, 2.0).endswith("complete latency -")
    restoring = StateStats(restoring=(0, 2), restore_records_per_second=312_000.0, restore_left=55, restore_total=100)
    expected = ", split: restoring 45 % of tasks 0, 2, 312,000 records/s"
    assert in_words(snapshot(restoring), 1.0).endswith(expected)
    out = io.StringIO()
    Console(file=out, width=120).print(screen(snapshot(), 120))
    for part in ("split", "by a bolt: 93, timeout: 7", "2 acker workers: 1 of 1 partitions", "99 open trees"):
        assert part in out.getvalue()
    assert "elsewhere" not in out.getvalue()


def test_without_a_terminal_lines_come_every_few_seconds() -> None:
    now, out, figures = 0.0, io.StringIO(), snapshot()
    console = standard_output()
    console.file, console.width = out, 1000
    with open_view(console):
        assert out.getvalue() == ""
    view = View(console, clock=lambda: now)
    for step in range(20):
        now = step * PLAIN_SECONDS / 5
        view.show(figures)
    view.note("killed [bold] 17")
    lines = out.getvalue().splitlines()
    assert len(lines) == 4
    assert lines[-1] == "killed [bold] 17"


def test_a_process_of_bolts_has_their_own_figures_every_half_a_minute() -> None:
    took = LatencyHistogram()
    took.record(0.1)
    split = Stats("split", executed=2400, emitted=3000, acked=2300, failed={"failed": 45}, retrying=3)
    count = Stats("count", executed=3000, acked=3000, process_latency=took)
    now, out = 0.0, io.StringIO()
    of = manifest(spout("lines"), counting("split", "lines"), counting("count", "lines"))
    figures = OwnFigures(of, Mock(latest=dict), Mock(side_effect=[100.0, 103.0]))
    shown, _ = figures.read({"split": split, "count": count})
    console = standard_output()
    console.file, console.width = out, 1000
    view = View(console, clock=lambda: now)
    for _ in range(61):
        now += 1.0
        view.show(shown)
    first, second = out.getvalue().splitlines()
    assert first.startswith(
        " 30.0 s  split: executed 2,400 (800/s), emitted 3,000, acked 2,300, failed 45 (by a bolt: 45)"
    )
    assert "open 0, 3 wait for a retry, latency -; count: executed 3,000 (1,000/s)" in first
    assert first.endswith("latency p50 102 ms, p99 102 ms")
    assert second.startswith(" 60.0 s")


_NOISY = """
import sys

from kafka_clients.supervision import read_launch

read_launch()
print("child: " + "long " * 30 + "end", file=sys.stderr)
print("child: printed")
"""
_LOUD = """
import logging
from unittest.mock import Mock

from acker_cli.console import log_to_stderr, standard_output
from acker_cli.processes.own_figures import OwnFigures
from acker_cli.views.live import open_view
from kafka_clients.supervision import ChildProcess
from tests.manifests import counting, manifest, spout

log_to_stderr("info", brief=True)
figures, _ = OwnFigures(manifest(spout("lines")), Mock(latest=dict)).read({})
with open_view(standard_output()) as view:
    child = ChildProcess(("noisy",), {})
    view.note("note")
    view.show(figures)
    child.launch({}).wait()
    logging.info("own log")
    print("own print")
    view.show(figures)
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
    (tmp_path / "noisy.py").write_text(_NOISY)
    note, *output, heading, empty, table, afterwards, end = at_terminal(_LOUD, tmp_path)
    assert (note, empty, afterwards, end) == ("note", "", "afterwards", "")
    assert output == ["child: " + "long " * 30 + "end", "child: printed", "own log", "own print"]
    assert heading.startswith("topology ")
    assert table.startswith("component")

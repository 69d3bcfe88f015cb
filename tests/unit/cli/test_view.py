"""Snapshots as text and as a table, and progress of long requests."""

import io

from rich.console import Console

from acker_cli.console import standard_output
from acker_cli.views.live import PLAIN_SECONDS, TopologySnapshot, View, drawn, in_words, open_view
from acker_worker.stats import WorkerStats
from spout_sdk import LatencyHistogram, Stats


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
    for part in ("1,000 of 4,000 lines", "failed 100 (93 failed, 7 timeout)", "9,876 tuples/s", "p50 102 ms"):
        assert part in line
    # Zero milliseconds would be wrong before a tree is acked.
    assert in_words(TopologySnapshot(2.0, frozenset(), {})).endswith("complete latency -")
    out = io.StringIO()
    Console(file=out, width=120).print(drawn(snapshot()))
    for part in ("split", "2,345", "93 failed, 7 timeout", "2 acker workers: 8 partitions, 99 open trees"):
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

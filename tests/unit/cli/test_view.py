"""Snapshots in words and as a table."""

import io
import os
import subprocess
import sys

from rich.console import Console

from acker_cli.captured_stderr import captured_stderr
from acker_cli.snapshot import Progress, Rate, TopologySnapshot, by_reason, in_words
from acker_cli.view import PLAIN_SECONDS, PlainView, drawn, open_view
from acker_worker.stats import WorkerStats
from spout_sdk import LatencyHistogram, Stats


def snapshot() -> TopologySnapshot:
    latency = LatencyHistogram()
    latency.record(0.1)
    return TopologySnapshot(
        seconds=3.25,
        spouts=frozenset({"lines"}),
        components={
            "lines": Stats(
                "lines",
                pids=(1,),
                tasks=(0, 1),
                emitted=1200,
                acked=1000,
                failed={"timeout": 7, "failed": 93},
                pending=100,
                counters={"replayed": 100},
                complete_latency=latency,
            ),
            "split": Stats("split", pids=(2, 3), tasks=(0, 1), executed=2345, acked=2300, failed={"failed": 45}),
        },
        rate=9876.5,
        acker_pids=(4, 5),
        ackers=WorkerStats(partitions=8, pending=99, orphans=3),
        progress=Progress(1000, 4000, "lines"),
    )


def test_a_line_says_it_all() -> None:
    line = in_words(snapshot())
    for part in [
        "1,000 of 4,000 lines",
        "emitted 1,200",
        "pending 100",
        "acked 1,000",
        "failed 100 (93 failed, 7 timeout)",
        "replayed 100",
        "9,876 tuples/s",
        "p50 102 ms, p99 102 ms",
    ]:
        assert part in line


def test_no_latency_is_said_before_a_tree_is_acked() -> None:
    """Zero milliseconds would be a lie."""
    assert in_words(TopologySnapshot(2.0, frozenset(), {})).endswith("complete latency -")


def test_the_table_says_it_all() -> None:
    console = Console(file=io.StringIO(), width=120)
    console.print(drawn(snapshot()))
    assert isinstance(console.file, io.StringIO)
    said = console.file.getvalue()
    for part in ["split", "2,345", "93 failed, 7 timeout", "2 acker workers: 8 partitions, 99 open trees", "9,876 tup"]:
        assert part in said


def test_failures_by_reason() -> None:
    assert by_reason({}) == "0"
    assert by_reason({"timeout": 1}) == "1 (1 timeout)"


def test_the_rate_is_that_of_the_last_seconds() -> None:
    now = 0.0
    rate = Rate(lambda: now)
    assert rate.update(0) == 0.0
    for second in range(1, 11):
        now = float(second)
        shown = rate.update(100 * second)
    assert shown == 100.0
    for second in range(11, 16):
        now = float(second)
        shown = rate.update(1000)
    assert shown == 0.0


def test_plain_lines_come_now_and_then() -> None:
    now = 0.0
    console = Console(file=io.StringIO(), width=1000)
    view = PlainView(console, lambda: now)
    for step in range(20):
        now = step * PLAIN_SECONDS / 5
        view.show(snapshot())
    view.note("killed [bold] 17")
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert len(lines) == 4
    assert lines[-1] == "killed [bold] 17"


def test_without_a_terminal_there_is_no_table() -> None:
    with open_view(Console(file=io.StringIO())) as view:
        assert isinstance(view, PlainView)


def test_what_children_write_to_standard_error_is_caught() -> None:
    seen: list[str] = []
    with captured_stderr(seen.append):
        subprocess.run([sys.executable, "-c", "import sys; print('from a child', file=sys.stderr)"], check=True)
        os.write(2, b"from C\n")
    assert seen == ["from a child", "from C"]

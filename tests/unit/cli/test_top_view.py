"""A topology's figures fit 80 columns, with errors."""

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from acker_cli.commands.options import only_topology
from acker_cli.errors import SettingsError
from acker_cli.views.screen import screen
from acker_cli.views.states import in_bytes
from acker_worker.stats import PartitionStats, WorkerStats
from inspection.health.observation import Observation
from inspection.health.verdict import judge
from inspection.view import TopologyView
from kafka_clients.errors import UnknownTopologyError
from spout_sdk.statistics import Stats
from spout_sdk.statistics.state_stats import StateStats
from tests.manifests import chained, counting, spout
from tests.manifests import manifest as manifest_of
from tests.unit.inspection.reports import NOW, acker, manifest, stats_record
from tuple_tree.latency import LatencyHistogram

LONG = "a-bolt-with-a-very-long-name-that-fits-no-column"


def drawn(view: TopologyView, width: int = 80, *notes: str) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None)
    snapshot = view.snapshot(NOW)
    findings = judge(Observation(view.manifest, snapshot))
    console.print(screen(snapshot, width, findings, notes))
    return out.getvalue().splitlines()


def busy() -> TopologyView:
    """Everything at once, and in large numbers."""
    view = TopologyView(manifest(**{"split": ("lines",), LONG: ("split",)}))
    for number in range(7):
        at_ms, many = NOW - 6000 + 1000 * number, 1_234_567 * number
        took = LatencyHistogram({20: number + 1})
        counts: dict[str, Any] = {"emitted": many, "acked": many, "failed": {"timeout": 12_345 * number}}
        lines = Stats("lines", (1,), (0,), **counts, pending=10_000, complete_latency=took)
        long = Stats(LONG, (2,), (0,), executed=many, acked=many, errors=3, last_error="ValueError: " + "x" * 300)
        partition = PartitionStats(1, 1_234_567, 12, clock_lag_ms=2500, rebuilding=True, committed=48_123, oldest_ms=1)
        view.feed([stats_record(lines, 2 + number, at_ms), stats_record(long, 2 + number, at_ms)])
        view.feed([acker(WorkerStats(entries=many, by_partition=(partition,)), 100 + number, at_ms)])
    view.feed_lags({"split": 4_812_345, LONG: 0}, 7)
    return view


def test_chained_bolts_are_below_their_head() -> None:
    head = spout("a")
    view = TopologyView(manifest_of(head, spout("b"), chained("c", "a", streams=head.streams), chained("d", "c")))
    lines = [" ".join(line.split()[:2]) for line in drawn(view)]
    begin = lines.index("component tasks") + 1
    assert [line.removesuffix(" 0/1") for line in lines[begin : begin + 4]] == ["a", "└ c", "└ d", "b"]


def test_the_view_fits_the_terminal() -> None:
    view = busy()
    for width in (80, 110, 160):
        lines = drawn(view, width)
        assert max(map(len, lines)) <= width
        heading = next(line for line in lines if line.startswith("component"))
        assert heading.split()[:6] == ["component", "tasks", "emit/s", "exec/s", "ack/s", "fail/s"]
        (row,) = [line for line in lines if line.startswith("lines ")]
        assert row.split()[1:6] == ["1/2", "1.2M", "1.2M", "12.3k", "10k"]


def test_errors_are_in_the_view() -> None:
    text = "\n".join(drawn(busy(), 80, "the brokers are gone"))
    for part in ("7 dead letters", "lines: failed 74,070 (timeout: 74,070)", "errors 3; ValueErr", "brokers are gone"):
        assert part in text
    idle = "\n".join(drawn(TopologyView(manifest())))
    for part in ("0/2", "Topology words is not running", "0 acker workers: 0 of 2 partitions"):
        assert part in idle
    view = TopologyView(manifest())
    view.feed([stats_record(Stats("split", (2,), (0,), execute_seconds=42.0, execute_at="x"), 100, NOW)])
    hung = "\n".join(drawn(view, 300))
    assert "problem  Bolt split: one execute has been running for 42 s, at x." in hung
    assert "  → See what it waits for: py-spy dump --pid PID" in hung


def test_states_are_in_the_view() -> None:
    view = TopologyView(manifest_of(spout("lines"), counting("count", "lines")))
    assert "state of count: each tuple once, unless tuples come of several inputs" in "\n".join(drawn(view))
    state = StateStats("each tuple once", {"0": 1_203_441}, {"0": 310_000_000}, {"0": 2_400})
    restored = replace(
        state, restoring=(1, 2), restore_records_per_second=312_000.4, restore_left=55, restore_total=100
    )
    figures = "state of count: 1,203,441 keys, 310 MB, 2,400 identities; "
    for number, (shown, restore) in enumerate(
        ((state, ""), (restored, "restoring 45 % of tasks 1, 2, 312,000 records/s; "))
    ):
        view.feed([stats_record(Stats("count", (2,), (0,), state=shown), 100 + number, NOW)])
        assert f"{figures}{restore}each tuple once" in drawn(view, 160)
    assert max(map(len, drawn(view, 80))) <= 80
    assert [in_bytes(size) for size in (0, 999, 1_000, 2.5e12)] == ["0 bytes", "999 bytes", "1 kB", "2.5 TB"]


def test_the_only_topology_need_not_be_named() -> None:
    assert only_topology(["words"]) == "words"
    with pytest.raises(SettingsError, match="say which topology: the cluster has lines, words"):
        only_topology(["words", "lines"])
    with pytest.raises(UnknownTopologyError, match=r"^no topology in acker\.topologies: the cluster has none yet"):
        only_topology([])

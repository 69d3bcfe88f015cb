"""Results as a page, and the trees that all sides of a benchmark follow."""

import json
from pathlib import Path

import pytest

from benchmarks import harness, report
from benchmarks.harness import RESULTS, Benchmark, BenchmarkError, Spread
from benchmarks.ledger import BATCH, Window
from tests.pages import ROOT


def test_the_pages_and_plots_are_made_of_the_results_that_are_kept() -> None:
    results = {file.stem: json.loads(file.read_text()) for file in RESULTS.glob("*.json")}
    for name, tables in report.TABLES.items():
        text = (ROOT / name).read_text()
        assert report.document(text, tables, results) == text
    drawn = {f"{plot.name}.png" for plot in report.PLOTS if plot.rows(results)}
    assert drawn == {file.name for file in (ROOT / "docs" / "benchmarks").iterdir()}


def test_results_are_kept_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["sdk", "--results", str(tmp_path)])
    bench = Benchmark("sdk", "What it does.")
    bench.start()
    bench.publish([{"stage": "bolt", "tracked_us": Spread.of([2.5, 2.7], 1)}], {"x": "1"}, bytes=9)
    kept = json.loads((tmp_path / "sdk.json").read_text())
    assert kept == json.loads(capsys.readouterr().out)
    assert kept["rows"][0]["tracked_us"] == {"median": 2.6, "low": 2.5, "high": 2.7, "rounds": [2.5, 2.7]}
    assert kept["settings"] == {"rounds": 5, "bytes": 9}


@pytest.mark.parametrize(
    ("arguments", "kept_in", "tuples", "rounds"),
    [
        ([], RESULTS, 100, 5),
        (["--rounds", "2"], RESULTS, 100, 2),
        (["--tuples", "100"], RESULTS, 100, 5),
        (["--tuples", "7"], None, 7, 5),
        (["--flag"], None, 100, 5),
        (["--quick"], None, 9, 1),
        (["--quick", "--tuples", "7"], None, 7, 1),
    ],
)
def test_only_a_whole_run_replaces_the_result_of_the_page(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], kept_in: Path | None, tuples: int, rounds: int
) -> None:
    monkeypatch.setattr("sys.argv", ["sdk", *arguments])
    monkeypatch.setattr("os.getloadavg", lambda: (0.0, 0.0, 0.0))
    bench = Benchmark("sdk", "What it does.")
    bench.option("--tuples", 100, quick=9, help="of a round")
    bench.option("--flag", False, help="something else")
    given = bench.start()
    assert (bench.kept_in, given.tuples, bench.rounds) == (kept_in, tuples, rounds)


def test_a_published_comparison_needs_an_idle_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (1.5, 0.0, 0.0))
    monkeypatch.setattr(harness, "_IDLE_SECONDS", -1.0)
    for kept_in in (None, tmp_path):
        harness.await_idle(kept_in)
    with pytest.raises(BenchmarkError, match=r"busy \(load average 1.50\)"):
        harness.await_idle(RESULTS)
    monkeypatch.setattr("os.getloadavg", lambda: (0.2, 9.0, 9.0))
    harness.await_idle(RESULTS)


def test_contestants_take_turns_each_time_another_one_first() -> None:
    ran: list[str] = []
    contestants = {name: lambda name=name: ran.append(name) or len(ran) for name in "abc"}  # type: ignore[func-returns-value]
    results = harness.in_turn(contestants, 2, warm=1)
    assert ran == [*"cab", *"abc", *"bca"]
    assert results == {"a": [4, 9], "b": [5, 7], "c": [6, 8]}


def test_every_ack_is_of_a_tree_that_is_pending_by_then() -> None:
    window = Window.drawn(pending=3 * BATCH + 7, turns=5 * BATCH)
    assert len(set(window.roots.tolist())) == len(window.roots) == window.pending + window.turns
    assert len(set(window.order.tolist())) == window.turns
    for start in range(0, window.turns, BATCH):
        assert window.order[start : start + BATCH].max() < window.pending + start

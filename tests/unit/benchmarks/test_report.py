"""Results as a page with plots and aims, and the trees that all sides of a benchmark follow."""

import json
import re
from pathlib import Path

import pytest

from benchmarks import command, report
from benchmarks.aims import AIMS, Aim, outcomes
from benchmarks.errors import BenchmarkError
from benchmarks.ledger_ids import BATCH, WindowIds
from benchmarks.plots import PLOTS
from benchmarks.report import page, with_word_count
from benchmarks.results import DIRECTORY, Spread, load, save
from benchmarks.results import report as result_of
from tests.pages import ROOT


def test_the_page_and_its_plots_are_made_of_the_results_that_are_kept() -> None:
    results = load(DIRECTORY)
    assert page(results) == (ROOT / "docs" / "benchmarks.md").read_text()
    readme = (ROOT / "README.md").read_text()
    assert with_word_count(readme, results["word_count"]) == readme
    for plot in (plot for plot in PLOTS if plot.benchmark in results):
        assert plot.rows(results[plot.benchmark]["rows"]), plot.name
        assert (ROOT / "docs" / "benchmarks" / f"{plot.name}.png").exists()


def test_what_is_kept_is_what_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["report", "--results", str(tmp_path)])
    with pytest.raises(BenchmarkError, match="run make bench"):
        report.main()
    rows = [{"stage": "bolt", "tracked_us": Spread.of([2.5, 2.7], 1)}]
    found = result_of("sdk", {"cpus": 2}, rows, {"rounds": 2}, {"x": "1"})
    kept = load(save(found, tmp_path).parent)["sdk"]
    assert kept == json.loads(json.dumps(found))
    assert kept["rows"][0]["tracked_us"] == {"median": 2.6, "low": 2.5, "high": 2.7, "rounds": [2.5, 2.7]}
    # Only whole runs replace the results that the page is made of.
    for arguments, whole, directory in (([], True, DIRECTORY), ([], False, None), (["--quick"], True, None)):
        given = command.parser("What it does.", "a little").parse_args(arguments)
        assert command.directory(given, whole=whole) == directory


def test_an_aim_is_reached_or_not_or_not_measured() -> None:
    assert [(one.measured, one.reached) for one in outcomes({})] == [(None, "not measured")] * len(AIMS)
    for measured, reached in ((9.8765, "yes"), (10.01, "no")):
        aim = Aim("latency", "p50", lambda found: float(found["p50"]), most=10, unit=" ms")
        (outcome,) = outcomes({"latency": {"p50": measured}}, [aim])
        assert (outcome.aim.target, outcome.measured, outcome.reached) == ("≤ 10 ms", measured, reached)


def test_every_version_that_is_compared_is_exact() -> None:
    files = [*(ROOT / "benchmarks" / "setup").glob("requirements-*.txt")]
    assert files
    for file in files:
        assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in file.read_text().splitlines()), file


def test_every_ack_is_of_a_tree_that_is_pending_by_then() -> None:
    ids = WindowIds.drawn(pending=3 * BATCH + 7, turns=5 * BATCH)
    assert len(set(ids.roots.tolist())) == len(ids.roots) == ids.pending + ids.turns
    assert len(set(ids.order.tolist())) == ids.turns
    for start in range(0, ids.turns, BATCH):
        assert ids.order[start : start + BATCH].max() < ids.pending + start

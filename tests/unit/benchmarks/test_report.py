"""Results as a page with plots and aims, and the trees that all sides of a benchmark follow."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks import command, report
from benchmarks.ack_log import SilenceError, ToldNotice
from benchmarks.aims import AIMS, Aim, outcomes
from benchmarks.errors import BenchmarkError
from benchmarks.ledger_ids import BATCH, WindowIds
from benchmarks.plots import PLOTS
from benchmarks.report import page
from benchmarks.results import DIRECTORY, Spread, load, save
from benchmarks.results import report as result_of
from benchmarks.worker import rate
from tests.pages import ROOT


class Axes:
    """Keeps what is drawn; matplotlib is in an environment of its own."""

    def __init__(self) -> None:
        self.drawn: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        def note(*values: Any, **_options: Any) -> None:
            if name in ("bar", "barh", "plot", "loglog"):
                self.drawn.append(values)

        return note


def test_the_page_and_its_plots_are_made_of_the_results_that_are_kept() -> None:
    results = load(DIRECTORY)
    assert page(results) == (ROOT / "docs" / "benchmarks.md").read_text()
    for plot in (plot for plot in PLOTS if plot.benchmark in results):
        axes = Axes()
        plot.draw(axes, plot.rows(results[plot.benchmark]["rows"]))
        assert axes.drawn, plot.name
        assert all(len(values[0]) == len(values[1]) for values in axes.drawn), plot.name
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


class Filled:
    """A log of two partitions, ten records of a hundred entries in each."""

    def entries(self) -> list[NDArray[np.int64]]:
        return [np.arange(0, 1_100, 100), np.arange(0, 1_100, 100)]


def test_a_rate_begins_with_the_first_notice_of_the_last_partition() -> None:
    notices = [
        ToldNotice(*each, trees=1)
        for each in ((0, 2, 1_000), (0, 4, 1_900), (1, 3, 2_000), (0, 10, 3_000), (1, 10, 4_000))
    ]
    # Six records of the first partition and seven of the second, in two seconds.
    assert rate(Filled(), notices) == pytest.approx(13 * 100 / 2)
    short = [ToldNotice(0, 2, 1_000, 1), ToldNotice(1, 10, 1_010, 1), ToldNotice(0, 10, 1_050, 1)]
    with pytest.raises(SilenceError, match="in 40 ms"):
        rate(Filled(), short)

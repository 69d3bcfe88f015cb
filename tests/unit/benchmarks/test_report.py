"""Results as a page with plots, and what they say about the aims."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import report
from benchmarks.aims import AIMS, Aim, outcomes
from benchmarks.errors import BenchmarkError
from benchmarks.plots import PLOTS
from benchmarks.report import page, shown
from benchmarks.results import DIRECTORY, Spread, load, save
from benchmarks.results import report as result_of
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


def test_the_page_is_made_of_the_results_that_are_kept() -> None:
    results = load(DIRECTORY)
    assert page(results) == (ROOT / "docs" / "benchmarks.md").read_text()
    shown_plots = [plot for plot in PLOTS if plot.benchmark in results]
    assert len({plot.name for plot in shown_plots}) == len(shown_plots) >= 10
    for plot in shown_plots:
        axes = Axes()
        plot.draw(axes, plot.rows(results[plot.benchmark]["rows"]))
        assert axes.drawn, plot.name
        assert all(len(values[0]) == len(values[1]) for values in axes.drawn), plot.name
        assert (ROOT / "docs" / "benchmarks" / f"{plot.name}.png").exists()


def test_values() -> None:
    assert shown({"median": 31_415_926, "low": 3_000_000, "high": 40_000_000, "rounds": [1]}) == "31.42 M (3 M to 40 M)"
    for value, text in ((12_345.6, "12,346"), (0.42, "0.42"), (None, ""), (True, "yes"), ("a|b", "a\\|b")):
        assert shown(value) == text
    spread = Spread.of([3.04, 1.0, 2.0, 10.0], 1)
    assert (spread.median, spread.low, spread.high, spread.rounds) == (2.5, 1.0, 10.0, (3.0, 1.0, 2.0, 10.0))


def test_what_is_kept_is_what_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["report", "--results", str(tmp_path)])
    with pytest.raises(BenchmarkError, match="run make bench"):
        report.main()
    rows = [{"stage": "bolt", "tracked_us": Spread.of([2.5, 2.7], 1)}]
    found = result_of("sdk", {"cpus": 2}, rows, {"rounds": 2}, {"x": "1"})
    assert save(found, tmp_path) == tmp_path / "sdk.json"
    kept = load(tmp_path)["sdk"]
    assert kept == json.loads(json.dumps(found))
    assert kept["rows"][0]["tracked_us"] == {"median": 2.6, "low": 2.5, "high": 2.7, "rounds": [2.5, 2.7]}
    assert {"python", "kafka", "librdkafka", "confluent-kafka", "numba", "x"} <= set(kept["versions"])


def test_an_aim_is_reached_or_not_or_not_measured() -> None:
    assert [(one.measured, one.reached) for one in outcomes({})] == [(None, "not measured")] * len(AIMS)
    for measured, reached in ((9.8765, "yes"), (10.01, "no")):
        aim = Aim("latency", "p50", lambda found: float(found["p50"]), most=10, unit=" ms")
        (outcome,) = outcomes({"latency": {"p50": measured}}, [aim])
        assert (outcome.aim.target, outcome.measured, outcome.reached) == ("≤ 10 ms", measured, reached)
    growth = {"resident of acker": 3.0, "resident of sink": -1.0, "p50": 12.0, "p99": 1.0}
    whole = {"minutes": 30.0, "interrupted": False, "drift_percent": growth, "failed": 0}
    whole |= {"pending_at_end": 1, "open_in_ackers_at_end": 0}
    for changed, expected in (
        ({}, [(3.0, "yes"), (12.0, "no"), (1, "no")]),
        ({"minutes": 2}, [(None, "not measured")] * 3),
        ({"interrupted": True}, [(None, "not measured")] * 3),
    ):
        soak = {"benchmark": "soak", "rows": [whole | changed]}
        assert [(one.measured, one.reached) for one in outcomes({"soak": soak})][-3:] == expected

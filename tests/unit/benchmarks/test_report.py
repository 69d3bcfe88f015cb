"""Results as a page, and what they say about the aims."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import report
from benchmarks.aims import AIMS, Aim, outcomes
from benchmarks.errors import BenchmarkError
from benchmarks.plots import PLOTS
from benchmarks.report import page, shown
from benchmarks.results import Spread, load, save
from benchmarks.results import report as result_of


def _spread(median: float) -> dict[str, Any]:
    return {"median": median, "low": 0.9 * median, "high": 1.1 * median, "rounds": [median]}


def _result(name: str, *rows: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "benchmark": name,
        "rows": list(rows),
        "versions": {"storm": "2.8.3"},
        "machine": {},
        "settings": {},
        **more,
    }


def _stage(contestant: str, settings: str, rate: float) -> dict[str, Any]:
    return {"comparison": "stage", "contestant": contestant, "settings": settings, "tuples_per_s": _spread(rate)}


def _measured(results: dict[str, Any]) -> dict[str, tuple[float | None, str]]:
    return {one.aim.what: (one.measured, one.reached) for one in outcomes(results)}


def test_spread() -> None:
    spread = Spread.of([3.04, 1.0, 2.0, 10.0], 1)
    assert (spread.median, spread.low, spread.high, spread.rounds) == (2.5, 1.0, 10.0, (3.0, 1.0, 2.0, 10.0))


def test_values() -> None:
    assert shown({"median": 31_415_926, "low": 3_000_000, "high": 40_000_000, "rounds": [1]}) == "31.42 M (3 M to 40 M)"
    assert shown(12_345) == "12,345"
    assert shown(12_345.6) == "12,346"
    assert shown(0.42) == "0.42"
    assert shown(None) == ""
    assert shown(True) == "yes"
    assert shown("a|b") == "a\\|b"
    assert shown({"cpus": 2, "load": [0.5, 1]}) == "cpus 2, load 0.5, 1"


def test_what_is_kept_is_what_was_found(tmp_path: Path) -> None:
    host = {"cpus": 2, "load_before": [0.1, 0.2, 0.3]}
    rows = [{"stage": "bolt", "tracked_us": Spread.of([2.5, 2.7], 1)}]
    found = result_of("sdk", host, rows, {"rounds": 2}, {"x": "1"})
    assert save(found, tmp_path) == tmp_path / "sdk.json"
    kept = load(tmp_path)["sdk"]
    assert kept == json.loads(json.dumps(found))
    assert kept["machine"] == host
    assert kept["rows"][0]["tracked_us"] == {"median": 2.6, "low": 2.5, "high": 2.7, "rounds": [2.5, 2.7]}
    assert {"python", "kafka", "librdkafka", "confluent-kafka", "numba", "x"} <= set(kept["versions"])


def test_every_result_has_a_section_in_order() -> None:
    rows: list[dict[str, Any]] = [{"partitions": 1, "rate": 5}, {"partitions": 2, "rate": 9, "peer": "x"}]
    text = page({name: _result(name, *rows) for name in ("another", "spark", "sdk")})
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings == ["## Aims", "## A tuple in the SDK, by stage", "## A Spark bolt", "## another"]
    assert "| partitions | rate | peer |\n|---|---|---|\n| 1 | 5 |  |\n| 2 | 9 | x |" in text
    assert "Versions: storm 2.8.3." in text
    assert "(benchmarks/sdk.png)" in text
    assert "(benchmarks/soak_memory.png)" not in text


def test_comparisons_of_one_result_have_tables_and_plots_of_their_own() -> None:
    pipeline = {"comparison": "pipeline", "source": "topic", "tuples_per_s": _spread(5)}
    found = _result("topology", _stage("plain", "tuned", 7), _stage("plain", "default", 6), ratios={"a to b": 0.5})
    assert "topology_stage.png" in page({"topology": found})
    assert "topology_pipeline.png" not in page({"topology": found})
    both = page({"topology": {**found, "rows": [*found["rows"], pipeline]}})
    assert "topology_pipeline.png" in both
    assert "| stage | plain | tuned | 7 (6.3 to 7.7) |" in both
    assert "| source | topic |" in both
    assert "| a to b | 0.5 |" in both


def test_samples_of_a_soak_are_not_in_the_table() -> None:
    row = {"minutes": 30, "interrupted": False, "samples": [{"at_s": 5}], "drift_percent": {}, "failed": 0}
    text = page({"soak": _result("soak", {**row, "pending_at_end": 0, "open_in_ackers_at_end": 0})})
    assert "at_s" not in text
    assert "| minutes | 30 |" in text


def test_without_results_no_aim_is_measured() -> None:
    assert {reached for _, reached in _measured({}).values()} == {"not measured"}
    assert len(_measured({})) == len(AIMS)


def test_aims_of_the_acker() -> None:
    results = {
        "ledger": _result(
            "ledger",
            {"pending": 100_000, "speed_ratio": 5.0, "memory_ratio": 0.4},
            {"pending": 1_000_000, "speed_ratio": 7.9, "memory_ratio": 0.4},
            {"pending": 10_000_000, "speed_ratio": None, "memory_ratio": 0.46},
        ),
        "worker": _result("worker", {"pending": 100_000, "ratio": None}),
        "worker_curve": _result(
            "worker_curve",
            *(
                {"partitions": 2, "batch": batch, "workers": workers, "worker": _spread(rate)}
                for batch, workers, rate in ((10, 1, 100), (10, 2, 180), (1_000, 1, 1_000), (1_000, 2, 1_100))
            ),
            # More partitions: one point that is better than the others, and one where the broker is the limit.
            *(
                {"partitions": partitions, "batch": batch, "workers": workers, "worker": _spread(rate)}
                for partitions, batch, rates in ((4, 10, (100, 200)), (8, 10, (100, 170)), (8, 1_000, (1_000, 3_000)))
                for workers, rate in enumerate(rates, 1)
            ),
        ),
        "rebuild": _result("rebuild", {"entries": 10_000_640, "entries_per_second": _spread(12e6)}),
    }
    assert list(_measured(results).values())[:7] == [
        (5.0, "yes"),
        (7.9, "no"),
        (0.46, "no"),
        (None, "not measured"),
        (None, "not measured"),
        (1.8, "yes"),
        (12.0, "yes"),
    ]


def test_aims_of_a_topology() -> None:
    rows = [
        _stage("plain", "tuned", 600_000),
        _stage("bytewax", "default", 100_000),
        _stage("bytewax", "tuned", 150_000),
        _stage("kafka-acker", "at_least_once", 240_000),
    ]
    ratios = {"at_least_once to plain tuned": 0.4, "exactly_once to at_most_once, one process, by CPU time": 0.7}
    measured = _measured({"topology": _result("topology", *rows, ratios=ratios)})
    assert measured["one process, tracked, against the fastest framework"] == (1.6, "no")
    assert measured["one process, tracked, against the tuned plain loop"] == (0.4, "no")
    assert measured["one process, exactly once against `at_most_once`, by CPU time"] == (0.7, "yes")
    assert measured["one process, tracked against `at_most_once`"] == (None, "not measured")


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, [(3.0, "yes"), (12.0, "no"), (1, "no")]),
        ({"minutes": 2}, [(None, "not measured")] * 3),
        ({"interrupted": True}, [(None, "not measured")] * 3),
    ],
)
def test_aims_of_a_soak(changed: dict[str, Any], expected: list[tuple[float | None, str]]) -> None:
    row = {
        "minutes": 30.0,
        "interrupted": False,
        "drift_percent": {"resident of acker": 3.0, "resident of sink": -1.0, "p50": 12.0, "p99": 1.0},
        "pending_at_end": 1,
        "open_in_ackers_at_end": 0,
        "failed": 0,
    }
    assert list(_measured({"soak": _result("soak", {**row, **changed})}).values())[-3:] == expected


def test_an_aim_is_shown_with_its_figure() -> None:
    most = Aim("latency", "p50", lambda _found: 9.8765, most=10, unit=" ms")
    (outcome,) = outcomes({"latency": {}}, [most])
    assert (most.target, outcome.measured, outcome.reached) == ("≤ 10 ms", 9.8765, "yes")
    row = {"rate": 1_000, "p50_ms": _spread(10.01), "p99_ms": _spread(40)}
    text = page({"latency": _result("latency", row)})
    assert "p50 | ≤ 10 ms | 10.01 ms | no |" in text
    assert "p99 | ≤ 40 ms | 40 ms | yes |" in text


def test_every_plot_has_a_file_of_its_own() -> None:
    assert len({plot.name for plot in PLOTS}) == len(PLOTS)


def test_no_results_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["report", "--results", str(tmp_path)])
    with pytest.raises(BenchmarkError, match="run make bench"):
        report.main()

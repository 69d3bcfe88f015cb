"""Plots find in the rows what they draw; matplotlib itself is in an environment of its own, so the axes only note."""

from typing import Any

import pytest

from benchmarks.plots import PLOTS, Plot


class Axes:
    """Notes what is drawn."""

    def __init__(self) -> None:
        self.drawn: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        def note(*values: Any, **_options: Any) -> None:
            if name in ("bar", "barh", "plot", "loglog"):
                self.drawn.append(values)

        return note


def _spread(median: float) -> dict[str, Any]:
    return {"median": median, "low": 0.9 * median, "high": 1.1 * median, "rounds": [median]}


_STAGES = ("start_s", "compile_s", "takeover_s", "rebuild_s")
_PARTS = ("source", "transform", "sink", "acker", "broker")
ROWS: dict[str, list[dict[str, Any]]] = {
    "ledger": [
        {
            "pending": 100_000,
            "ledger": _spread(4e7),
            "storm": None,
            "dict": _spread(5e6),
            "bytes_per_tree": 48.0,
            "peak_bytes_per_tree": 82.0,
            "storm_bytes_per_tree": None,
        }
    ],
    "worker": [{"pending": 100_000, "worker": _spread(2e7), "storm": _spread(7e6)}],
    "worker_curve": [
        {"partitions": 2, "batch": batch, "workers": workers, "worker": _spread(1e6)}
        for batch in (10, 100)
        for workers in (1, 2)
    ],
    "rebuild": [{"entries": 10_000_000, **{stage: _spread(1.0) for stage in _STAGES}}],
    "topology": [
        {
            "comparison": "stage",
            "contestant": "plain",
            "settings": "tuned",
            "tuples_per_s": _spread(6e5),
            "cpu_us_per_tuple": _spread(1.1),
        },
        {
            "comparison": "pipeline",
            "source": "topic",
            "settings": "at_least_once",
            **{f"{part}_cpu_us_per_tuple": _spread(2.0) for part in _PARTS},
        },
    ],
    "exactly_once": [{"comparison": "throughput", "guarantee": "exactly_once", "tuples_per_s": _spread(1e5)}],
    "latency": [{"rate": 1_000, "trees": 5, "p50_ms": _spread(8.0), "p99_ms": _spread(30.0), "latest_emit_ms": 2.0}],
    "soak": [
        {
            "samples": [
                {"at_s": at, "p50_ms": 8.0, "p99_ms": 30.0, "resident_mib": {"acker": 170.0, "broker": 300.0}}
                for at in (5.0, 10.0)
            ]
        }
    ],
    "sdk": [{"stage": "emit", "untracked_us": _spread(0.5), "tracked_us": _spread(0.9)}],
    "spark": [{"job": "bolt", "tuples_per_s": _spread(4e5)}],
}
DRAWN = {
    # Nothing of Storm, which was not there.
    "ledger": 2,
    "ledger_memory": 2,
    "worker": 2,
    "worker_curve": 2,
    "rebuild": 4,
    "topology_pipeline": 5,
    "soak_memory": 2,
    "soak_latency": 2,
    "sdk": 2,
}
"""How many bars, rows of bars or lines; 1 where it is not said."""


@pytest.mark.parametrize("plot", PLOTS, ids=lambda plot: plot.name)
def test_everything_is_drawn(plot: Plot) -> None:
    axes = Axes()
    plot.draw(axes, plot.rows(ROWS[plot.benchmark]))
    assert len(axes.drawn) == DRAWN.get(plot.name, 1)
    assert all(len(values[0]) == len(values[1]) for values in axes.drawn)

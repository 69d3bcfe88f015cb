"""The plots of the report, one function each.

They run in the environment that `benchmarks.setup` makes for them, which has matplotlib and none of our dependencies:
`python -m benchmarks.plots RESULTS DIRECTORY`.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Plot:
    """A picture of some rows of a benchmark.

    Attributes:
        benchmark: whose rows.
        name: of the file, without `.png`.
        title: what it shows.
        draw: draws rows on the axes that it is given.
        comparison: of the rows, where a benchmark has several; empty for all.
    """

    benchmark: str
    name: str
    title: str
    draw: Callable[[Any, Sequence[Row]], None]
    comparison: str = ""

    def rows(self, rows: Sequence[Row]) -> list[Row]:
        """Those that it is about."""
        return [row for row in rows if not self.comparison or row.get("comparison") == self.comparison]

    def has_rows(self, rows: Sequence[Row]) -> bool:
        """Whether there is something to draw."""
        return bool(self.rows(rows))


def _bars(axes: Any, groups: list[str], sides: Mapping[str, Sequence[Row | None]], unit: float) -> None:
    """Groups of bars: the median of each side, with lines from the slowest round to the fastest."""
    present = {side: spreads for side, spreads in sides.items() if any(spreads)}
    width = 0.8 / max(len(present), 1)
    for number, (side, spreads) in enumerate(present.items()):
        drawn = [(at, spread) for at, spread in enumerate(spreads) if spread]
        medians = [spread["median"] / unit for _, spread in drawn]
        errors = [
            [each - spread["low"] / unit for each, (_, spread) in zip(medians, drawn, strict=True)],
            [spread["high"] / unit - each for each, (_, spread) in zip(medians, drawn, strict=True)],
        ]
        places = [at + (number - (len(present) - 1) / 2) * width for at, _ in drawn]
        bars = axes.bar(places, medians, width, yerr=errors, capsize=3, label=side)
        axes.bar_label(bars, fmt="%.3g", padding=2)
    axes.set_xticks(range(len(groups)), groups)
    if len(present) > 1:
        axes.legend()


def _lying(axes: Any, names: list[str], spreads: list[Row], unit: float) -> None:
    """A lying bar for each name, the first on top."""
    medians = [spread["median"] / unit for spread in spreads]
    errors = [
        [median - spread["low"] / unit for median, spread in zip(medians, spreads, strict=True)],
        [spread["high"] / unit - median for median, spread in zip(medians, spreads, strict=True)],
    ]
    bars = axes.barh(names, medians, 0.6, xerr=errors, capsize=3)
    axes.bar_label(bars, fmt="%.3g", padding=4)
    axes.invert_yaxis()
    axes.margins(x=0.12)


def ledger(axes: Any, rows: Sequence[Row]) -> None:
    sides = {"ledger": "ledger", "Storm's Acker.execute": "storm", "a plain dict in Python": "dict"}
    groups = [f"{row['pending']:,}" for row in rows]
    _bars(axes, groups, {label: [row[key] for row in rows] for label, key in sides.items()}, 1e6)
    axes.set(xlabel="pending trees", ylabel="million messages a second")


def ledger_memory(axes: Any, rows: Sequence[Row]) -> None:
    sides = {
        "ledger, resident": "bytes_per_tree",
        "ledger, at its highest while it grows": "peak_bytes_per_tree",
        "Storm's heap after a collection": "storm_bytes_per_tree",
    }
    taken: dict[str, list[Row | None]] = {
        label: [{"median": row[key], "low": row[key], "high": row[key]} if row[key] else None for row in rows]
        for label, key in sides.items()
    }
    _bars(axes, [f"{row['pending']:,}" for row in rows], taken, 1)
    axes.set(xlabel="pending trees", ylabel="bytes a tree")


def worker(axes: Any, rows: Sequence[Row]) -> None:
    sides = {"worker: topic to delivered notices": "worker", "Storm's Acker.execute, in memory": "storm"}
    groups = [f"{row['pending']:,}" for row in rows]
    _bars(axes, groups, {label: [row[key] for row in rows] for label, key in sides.items()}, 1e6)
    axes.set(xlabel="pending trees", ylabel="million entries a second")


def worker_curve(axes: Any, rows: Sequence[Row]) -> None:
    lines: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for row in rows:
        point = (row["batch"], row["worker"]["median"])
        lines.setdefault((row["partitions"], row["workers"]), []).append(point)
    for (partitions, workers), points in sorted(lines.items()):
        style = "-o" if workers == 1 else "--s"
        axes.loglog(*zip(*sorted(points), strict=True), style, label=f"{partitions} partitions, {workers} workers")
    axes.set(xlabel="entries of a batch", ylabel="entries a second")
    axes.legend(fontsize="small")


def rebuild(axes: Any, rows: Sequence[Row]) -> None:
    stages = {"start": "start_s", "load kernels": "compile_s", "take-over": "takeover_s", "rebuild": "rebuild_s"}
    names = [f"{row['entries'] / 1e6:.0f} M entries" for row in rows]
    left = [0.0] * len(rows)
    for label, key in stages.items():
        seconds = [row[key]["median"] for row in rows]
        axes.barh(names, seconds, 0.4, left=left, label=label)
        left = [a + b for a, b in zip(left, seconds, strict=True)]
    axes.set(xlabel="seconds")
    axes.legend()


def stage(axes: Any, rows: Sequence[Row]) -> None:
    names = [f"{row['contestant']}, {row['settings']}" for row in rows]
    _lying(axes, names, [row["tuples_per_s"] for row in rows], 1e3)
    axes.set(xlabel="thousand tuples a second")


def stage_cpu(axes: Any, rows: Sequence[Row]) -> None:
    # Logarithmic: some take thirty times as long as others.
    _lying(
        axes,
        [f"{row['contestant']}, {row['settings']}" for row in rows],
        [row["cpu_us_per_tuple"] for row in rows],
        1,
    )
    axes.set(xlabel="microseconds of CPU time a tuple, all threads of the process", xscale="log")
    axes.set_xlim(left=0.1)


def pipeline(axes: Any, rows: Sequence[Row]) -> None:
    names = [f"{row['source']}\n{row['settings']}" for row in rows]
    below = [0.0] * len(rows)
    for part in ("source", "transform", "sink", "acker", "broker"):
        taken = [row[f"{part}_cpu_us_per_tuple"]["median"] for row in rows]
        axes.bar(names, taken, 0.6, bottom=below, label=part)
        below = [a + b for a, b in zip(below, taken, strict=True)]
    axes.set(ylabel="microseconds of CPU time a tuple")
    axes.tick_params(axis="x", labelsize="x-small")
    axes.legend()


def guarantees(axes: Any, rows: Sequence[Row]) -> None:
    _lying(axes, [row["guarantee"] for row in rows], [row["tuples_per_s"] for row in rows], 1e3)
    axes.set(xlabel="thousand tuples a second, one process of a bolt")


def latency(axes: Any, rows: Sequence[Row]) -> None:
    quantiles = [name for name in rows[0] if name.endswith("_ms") and isinstance(rows[0][name], Mapping)]
    _bars(
        axes,
        [name.removesuffix("_ms") for name in quantiles],
        {f"{row['rate']:,.0f} trees a second": [row[name] for name in quantiles] for row in rows},
        1,
    )
    axes.set(ylabel="milliseconds from the intended emit", yscale="log")
    axes.set_ylim(bottom=1)


def soak_memory(axes: Any, rows: Sequence[Row]) -> None:
    samples = rows[0]["samples"]
    minutes = [sample["at_s"] / 60 for sample in samples]
    for name in samples[0]["resident_mib"] if samples else ():
        axes.plot(minutes, [sample["resident_mib"][name] for sample in samples], label=name)
    axes.set(xlabel="minutes", ylabel="resident MiB")
    axes.set_ylim(bottom=0)
    axes.legend()


def soak_latency(axes: Any, rows: Sequence[Row]) -> None:
    samples = rows[0]["samples"]
    minutes = [sample["at_s"] / 60 for sample in samples]
    for name in ("p50_ms", "p99_ms"):
        axes.plot(minutes, [sample[name] for sample in samples], label=name.removesuffix("_ms"))
    axes.set(xlabel="minutes", ylabel="complete latency in milliseconds", yscale="log")
    axes.legend()


def sdk(axes: Any, rows: Sequence[Row]) -> None:
    groups = [row["stage"].replace(", ", ",\n") for row in rows]
    _bars(axes, groups, {side: [row[f"{side}_us"] for row in rows] for side in ("untracked", "tracked")}, 1)
    axes.set(ylabel="microseconds of CPU time a tuple")
    axes.tick_params(axis="x", labelsize="x-small")


def spark(axes: Any, rows: Sequence[Row]) -> None:
    _lying(axes, [row["job"] for row in rows], [row["tuples_per_s"] for row in rows], 1e3)
    axes.set(xlabel="thousand tuples a second")


def word_count(axes: Any, rows: Sequence[Row]) -> None:
    _lying(axes, [row["contestant"] for row in rows], [row["tuples_per_s"] for row in rows], 1e3)
    axes.set(xlabel="thousand lines and words a second, all processes and the broker on the same cores")


def word_count_cpu(axes: Any, rows: Sequence[Row]) -> None:
    names = [row["contestant"] for row in rows]
    own = [row["cpu_us_per_tuple"]["median"] for row in rows]
    broker = [row["cpu_us_per_tuple_with_broker"]["median"] - each for row, each in zip(rows, own, strict=True)]
    axes.barh(names, own, 0.6, label="the contestant's processes")
    bars = axes.barh(names, broker, 0.6, left=own, label="the broker")
    axes.bar_label(bars, [f"{a + b:.3g}" for a, b in zip(own, broker, strict=True)], padding=4)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set(xlabel="microseconds of CPU time for each line or word")
    axes.legend()


def word_count_latency(axes: Any, rows: Sequence[Row]) -> None:
    timed = [row for row in rows if "p50_ms" in row]
    sides = {name.removesuffix("_ms"): [row[name] for row in timed] for name in ("p50_ms", "p99_ms")}
    _bars(axes, [row["contestant"] for row in timed], sides, 1)
    axes.set(ylabel="complete latency in milliseconds", yscale="log")
    axes.tick_params(axis="x", labelsize="small")


PLOTS: Final = (
    Plot("word_count", "word_count", "The words of two novels", word_count),
    Plot("word_count", "word_count_cpu", "The words of two novels: CPU time", word_count_cpu),
    Plot("word_count", "word_count_latency", "The words of two novels: from emit to ack", word_count_latency),
    Plot("ledger", "ledger", "Inits and acks of a sliding window", ledger),
    Plot("ledger", "ledger_memory", "Memory of a pending tree", ledger_memory),
    Plot("worker", "worker", "One worker process", worker),
    Plot("worker_curve", "worker_curve", "Small batches cost more", worker_curve),
    Plot("rebuild", "rebuild", "From the death of a worker to the first new notice", rebuild),
    Plot("topology", "topology_stage", "One process, from topic to topic", stage, "stage"),
    Plot("topology", "topology_stage_cpu", "One process: CPU time", stage_cpu, "stage"),
    Plot("topology", "topology_pipeline", "A whole topology: CPU time by process", pipeline, "pipeline"),
    Plot("exactly_once", "exactly_once", "What the guarantees cost", guarantees, "throughput"),
    Plot("latency", "latency", "Complete latency over three hops", latency),
    Plot("soak", "soak_memory", "Memory under a steady load", soak_memory),
    Plot("soak", "soak_latency", "Latency under a steady load", soak_latency),
    Plot("sdk", "sdk", "A tuple in the SDK, by stage", sdk),
    Plot("spark", "spark", "A Spark bolt, and plain copies", spark),
)


def main(results: Path, directory: Path) -> None:
    import matplotlib.pyplot as plt

    plt.switch_backend("Agg")
    directory.mkdir(parents=True, exist_ok=True)
    for plot in PLOTS:
        file = results / f"{plot.benchmark}.json"
        # What is not measured any more must not be shown any more.
        (directory / f"{plot.name}.png").unlink(missing_ok=True)
        rows = plot.rows(json.loads(file.read_text())["rows"]) if file.exists() else []
        if not rows:
            continue
        figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
        plot.draw(axes, rows)
        axes.set_title(plot.title)
        # Without the date and the version, the same figures give the same file.
        figure.savefig(directory / f"{plot.name}.png", dpi=110, metadata={"Software": None})
        plt.close(figure)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

"""Makes the tables of `docs/benchmarks.md`, the short one of the README, and some plots, of `benchmarks/results`.

    make bench-report
    python -m benchmarks.report --tables        # without plots, which need matplotlib
    python -m benchmarks.report --results OTHER --docs SOMEWHERE
    python -m benchmarks.report --word-count    # prints the short table of the README, and makes nothing

It needs only the standard library, and matplotlib for plots.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_ROOT: Final = Path(__file__).resolve().parents[1]
_RESULTS: Final = _ROOT / "benchmarks" / "results"
_README: Final = _ROOT / "README.md"
_BEGIN: Final = "<!-- word count -->"
_END: Final = "<!-- end of word count -->"
_TITLES: Final = {
    "word_count": "A word count, ours beside others",
    "ledger": "The ledger, and memory",
    "worker": "One acker worker",
    "worker_curve": "Workers by batches, partitions and processes",
    "topology": "A topology: one process, and all of them",
    "exactly_once": "Guarantees: throughput and latency",
    "latency": "Complete latency",
    "soak": "Half an hour under load",
    "sdk": "A tuple in the SDK, by stage",
    "spark": "A Spark bolt",
}
_NOT_IN_TABLES: Final = ("samples",)
_HEAD: Final = """# Benchmarks

Made of `benchmarks/results/` by `make bench-report`; do not edit. What each benchmark does, and what is fair about it,
stands at the top of its module; what the figures mean and where the time goes is in [performance.md](performance.md).
A figure is the median of the rounds that the settings name, with the lowest and the highest in brackets. Peers ran in
the same run on the same machine, in turn with ours.
"""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Plot:
    """Bars of a benchmark's rows, one below the other, with lines from the lowest round to the highest.

    Attributes:
        benchmark: whose rows.
        name: of the file, without `.png`.
        title: of the plot.
        label: the columns that name a row.
        bars: what a bar shows → its column.
        axis: what the values are.
        unit: that they are divided by.
        comparison: of the rows, where a benchmark has several.
        log: whether the axis is logarithmic.
    """

    benchmark: str
    name: str
    title: str
    label: tuple[str, ...]
    bars: Mapping[str, str]
    axis: str
    unit: float = 1.0
    comparison: str | None = None
    log: bool = False

    def rows(self, results: Mapping[str, Any]) -> list[Row]:
        """Those that have something to draw."""
        rows = results.get(self.benchmark, {"rows": ()})["rows"]
        of = [row for row in rows if self.comparison in (None, row.get("comparison"))]
        return [row for row in of if any(row.get(column) for column in self.bars.values())]


_CPU: Final = {"with the broker": "cpu_us_per_tuple_with_broker", "the contestant's processes": "cpu_us_per_tuple"}
PLOTS: Final = (
    Plot(
        "word_count",
        "word_count",
        "The words of two novels",
        ("contestant",),
        {"": "tuples_per_s"},
        "thousand lines and words a second, all processes and the broker on the same cores",
        unit=1e3,
    ),
    Plot(
        "word_count",
        "word_count_cpu",
        "The words of two novels: CPU time",
        ("contestant",),
        _CPU,
        "microseconds of CPU time for each line or word",
    ),
    Plot(
        "word_count",
        "word_count_latency",
        "The words of two novels: from emit to ack",
        ("contestant",),
        {"p50": "p50_ms", "p99": "p99_ms"},
        "complete latency in milliseconds",
        log=True,
    ),
    Plot(
        "ledger",
        "ledger",
        "Inits and acks of a sliding window",
        ("pending",),
        {"ledger": "ledger", "Storm's Acker.execute": "storm", "a plain dict in Python": "dict"},
        "million messages a second, by pending trees",
        unit=1e6,
    ),
    Plot(
        "worker",
        "worker",
        "One worker process",
        ("pending",),
        {"worker: topic to delivered notices": "worker", "Storm's Acker.execute, in memory": "storm"},
        "million entries a second, by pending trees",
        unit=1e6,
    ),
    Plot(
        "topology",
        "topology_stage",
        "One process, from topic to topic",
        ("contestant", "settings"),
        {"": "tuples_per_s"},
        "thousand tuples a second",
        unit=1e3,
        comparison="stage",
    ),
    Plot(
        "spark", "spark", "A Spark bolt, and plain copies", ("job",), {"": "rows_per_s"}, "thousand rows a second", 1e3
    ),
)


def shown(value: Any) -> str:
    """A value as it stands in a table."""
    match value:
        case None:
            return ""
        case {"median": float() | int() as median, "low": low, "high": high, **_rest}:
            return f"{shown(median)} ({shown(low)} to {shown(high)})"
        case bool():
            return "yes" if value else "no"
        case int() | float() if abs(value) >= 1_000_000:
            return f"{value / 1e6:.4g} M"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"
        case Mapping():
            return ", ".join(f"{key} {shown(each)}" for key, each in value.items())
        case list():
            return ", ".join(map(shown, value))
    return str(value).replace("|", "\\|")


def table(rows: Sequence[Row]) -> list[str]:
    """Rows as a table; those of different comparisons as one each, and a single one read downwards."""
    kinds = list(dict.fromkeys(row.get("comparison") for row in rows))
    if len(kinds) > 1:
        return [line for kind in kinds for line in ("", *table([row for row in rows if row.get("comparison") == kind]))]
    columns = [name for name in dict.fromkeys(name for row in rows for name in row) if name not in _NOT_IN_TABLES]
    if len(rows) == 1:
        return ["| | |", "|---|---|", *(f"| {column} | {shown(rows[0][column])} |" for column in columns)]
    return [
        "| " + " | ".join(columns) + " |",
        "|" + "---|" * len(columns),
        *("| " + " | ".join(shown(row.get(column)) for column in columns) + " |" for row in rows),
    ]


def section(result: Mapping[str, Any], plots: Sequence[Plot]) -> str:
    """A result as a section of the page."""
    name = result["benchmark"]
    lines = [f"## {_TITLES.get(name, name)}", "", f"`benchmarks/results/{name}.json`", ""]
    for plot in plots:
        lines += [f"![{plot.title}](benchmarks/{plot.name}.png)", ""]
    lines += table(result["rows"])
    if result.get("ratios"):
        lines += ["", "| ratio | |", "|---|---|"]
        lines += [f"| {ratio} | {shown(value)} |" for ratio, value in result["ratios"].items()]
    for label in ("settings", "versions", "machine"):
        if result.get(label):
            lines += ["", f"{label.capitalize()}: {shown(result[label])}."]
    return "\n".join(lines) + "\n"


def page(results: Mapping[str, Any]) -> str:
    """The whole page."""
    names = [*(name for name in _TITLES if name in results), *(name for name in results if name not in _TITLES)]
    drawn = [plot for plot in PLOTS if plot.rows(results)]
    sections = (section(results[name], [plot for plot in drawn if plot.benchmark == name]) for name in names)
    return "\n".join([_HEAD, *sections])


def word_count_table(result: Mapping[str, Any]) -> str:
    """The word count in few columns: rates, CPU time with the broker, and complete latency."""
    columns = {
        "tuples_per_s": "lines and words/s",
        "cpu_us_per_tuple_with_broker": "CPU time each, broker included",
        "p50_ms": "latency p50",
        "p99_ms": "p99",
    }
    units = {"cpu_us_per_tuple_with_broker": " µs", "p50_ms": " ms", "p99_ms": " ms"}
    lines = ["| word count | " + " | ".join(columns.values()) + " |", "|---" * (1 + len(columns)) + "|"]
    for row in result["rows"]:
        cells = [f"{shown(row[key]['median'])}{units.get(key, '')}" if key in row else "" for key in columns]
        lines.append(f"| {row['contestant']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def with_word_count(readme: str, result: Mapping[str, Any]) -> str:
    """The README with the short table of the word count between its marks."""
    before, rest = readme.split(_BEGIN)
    return f"{before}{_BEGIN}\n{word_count_table(result)}\n{_END}{rest.split(_END)[1]}"


def draw(plot: Plot, rows: Sequence[Row], directory: Path) -> None:
    import matplotlib.pyplot as plt

    plt.switch_backend("Agg")
    figure, axes = plt.subplots(figsize=(8, max(3.0, 0.5 + 0.3 * len(rows) * len(plot.bars))), layout="constrained")
    height = 0.8 / len(plot.bars)
    for number, (name, column) in enumerate(plot.bars.items()):
        drawn = [(at, row[column]) for at, row in enumerate(rows) if row.get(column)]
        medians = [spread["median"] / plot.unit for _, spread in drawn]
        below = [median - spread["low"] / plot.unit for median, (_, spread) in zip(medians, drawn, strict=True)]
        above = [spread["high"] / plot.unit - median for median, (_, spread) in zip(medians, drawn, strict=True)]
        places = [at + (number - (len(plot.bars) - 1) / 2) * height for at, _ in drawn]
        bars = axes.barh(places, medians, 0.9 * height, xerr=[below, above], capsize=2, label=name)
        axes.bar_label(bars, fmt="%.3g", padding=4)
    axes.set_yticks(range(len(rows)), [", ".join(shown(row[column]) for column in plot.label) for row in rows])
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set(title=plot.title, xlabel=plot.axis, xscale="log" if plot.log else "linear")
    if len(plot.bars) > 1:
        axes.legend()
    # Without the date and the version, the same figures give the same file.
    figure.savefig(directory / f"{plot.name}.png", dpi=110, metadata={"Software": None})
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=_RESULTS, help="the directory with the results")
    parser.add_argument("--docs", type=Path, default=_ROOT / "docs", help="the directory to write the page to")
    parser.add_argument("--tables", action="store_true", help="leave the plots as they are")
    parser.add_argument("--word-count", action="store_true", help="print the short table of the word count only")
    given = parser.parse_args()
    results = {file.stem: json.loads(file.read_text()) for file in sorted(given.results.glob("*.json"))}
    if not results or (given.word_count and "word_count" not in results):
        sys.exit(f"There are no results in {given.results} yet: run make bench")
    if given.word_count:
        print(word_count_table(results["word_count"]))
        return
    if "word_count" in results and given.docs == _ROOT / "docs":
        _README.write_text(with_word_count(_README.read_text(), results["word_count"]))
    plots = given.docs / "benchmarks"
    plots.mkdir(parents=True, exist_ok=True)
    (given.docs / "benchmarks.md").write_text(page(results))
    for plot in () if given.tables else PLOTS:
        if rows := plot.rows(results):
            draw(plot, rows, plots)


if __name__ == "__main__":
    main()

"""Makes `docs/benchmarks.md` with its plots, and the tables of the README, of `benchmarks/results`.

    make bench-report
    python -m benchmarks.report --tables        # without plots, which need matplotlib

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
_TITLES: Final = {
    "word_count": "A word count, compared with others",
    "pipeline": "A JSON pipeline, compared with others",
    "ledger": "The ledger, and memory",
    "worker": "One acker worker",
    "worker_curve": "Workers by batches, partitions and processes",
    "topology": "A topology: one process, and all of them",
    "exactly_once": "Guarantees: latency",
    "latency": "Complete latency",
    "uneven_work": "Uneven work in an AsyncBolt",
    "sdk": "A tuple in the SDK, by stage",
    "state": "The restore of a state",
    "message_status": "The status of a message among 10 million",
    "spark": "A Spark bolt",
}
_HEAD: Final = """# Benchmarks

Made of `benchmarks/results/` by `make bench-report`; do not edit. What each benchmark does, what is fair about it, what
the figures mean and where the time goes is in [performance.md](performance.md). A figure is the median of the rounds
that the settings name, with the lowest and the highest in brackets. Peers ran in the same run on the same machine, in
turn with ours.
"""

IN_WORDS: Final = {
    "storm": "Storm, bolts in Java, from its spout, 800 lines open",
    "pystorm": "Storm, bolts in Python (pystorm), from its spout, 800 lines open",
    "quixstreams": "Quix Streams, one process, from a topic to a topic, durable counts",
    "quixstreams-2": "Quix Streams, two processes, from a topic to a topic, durable counts",
    "bytewax": "Bytewax, one process, from a topic to a topic, durable counts",
    "ours": "kafka-acker, from its spout, tuple by tuple, 800 lines open",
    "ours-arrow": "kafka-acker, from its spout, in record batches, 800 lines open",
    "ours-chained": "kafka-acker, from its spout, split chained to it, tuple by tuple, 800 lines open",
    "ours-chained-arrow": "kafka-acker, from its spout, split chained to it, in record batches, 800 lines open",
    "ours-kafka-chained": "kafka-acker, from a topic, split chained to the spout, tuple by tuple, 20,000 lines open",
    "ours-kafka-chained-arrow": "kafka-acker, from a topic, split chained, in record batches, 20,000 lines open",
    "ours-kafka": "kafka-acker, from a topic, tuple by tuple, 20,000 lines open",
    "ours-kafka-arrow": "kafka-acker, from a topic, in record batches, 20,000 lines open",
    "ours-sink": "kafka-acker, from a topic to a topic, tuple by tuple, 20,000 lines open",
    "ours-sink-arrow": "kafka-acker, from a topic to a topic, in record batches, 20,000 lines open",
    "ours-state": "kafka-acker, from a topic to a topic, durable counts, tuple by tuple, 20,000 lines open",
    "ours-state-arrow": "kafka-acker, from a topic to a topic, durable counts, in record batches, 20,000 lines open",
    "ours-demo": "`acker demo`, counts and acked lines in SQLite",
}
"""The contestants of the word count in words."""

_STEPS: Final = {
    "bytewax": "Bytewax, one process",
    "quixstreams": "Quix Streams, one process",
    "quixstreams-2": "Quix Streams, two processes",
    "faust": "Faust, one process",
    "ours": "kafka-acker, chained, one process",
    "ours-2": "kafka-acker, chained, two processes",
    "ours-columns": "kafka-acker, chained, in record batches, one process",
    "ours-at-most-once": "kafka-acker, chained, at most once, one process",
    "ours-exactly-once": "kafka-acker, chained, exactly once, one process",
    "ours-unchained": "kafka-acker, a process for each step",
    "ours-unchained-columns": "kafka-acker, a process for each step, in record batches",
    "ours-merged": "kafka-acker, the steps in one bolt, unchained",
}
"""The contestants of the pipeline in words."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ReadmeTable:
    """A short table of the README, between marks with its name: contestants in words, columns with heads and units."""

    name: str
    words: Mapping[str, str]
    columns: Mapping[str, tuple[str, str]]

    def lines(self, result: Mapping[str, Any]) -> str:
        heads = " | ".join(head for head, _ in self.columns.values())
        lines = [f"| {self.name} | {heads} |", "|---" * (1 + len(self.columns)) + "|"]
        for row in result["rows"]:
            units = {key: unit for key, (_, unit) in self.columns.items()}
            cells = (f"{shown(row[key]['median'])}{unit}" if key in row else "" for key, unit in units.items())
            lines.append(f"| {self.words[row['contestant']]} | " + " | ".join(cells) + " |")
        return "\n".join(lines)

    def within(self, readme: str, result: Mapping[str, Any]) -> str:
        """The README with this table between its marks."""
        begin, end = f"<!-- {self.name} -->", f"<!-- end of {self.name} -->"
        before, rest = readme.split(begin)
        return f"{before}{begin}\n{self.lines(result)}\n{end}{rest.split(end)[1]}"


_WITH_BROKER: Final = ("CPU time each, broker included", " µs")
README_TABLES: Final = {
    "word_count": ReadmeTable(
        "word count",
        IN_WORDS,
        {
            "tuples_per_s": ("lines and words/s", ""),
            "cpu_us_per_tuple_with_broker": _WITH_BROKER,
            "p50_ms": ("latency p50", " ms"),
            "p99_ms": ("p99", " ms"),
        },
    ),
    "pipeline": ReadmeTable(
        "pipeline", _STEPS, {"clicks_per_s": ("clicks/s", ""), "cpu_us_per_click_with_broker": _WITH_BROKER}
    ),
}


@dataclass(frozen=True, slots=True)
class Plot:
    """Bars of a benchmark's rows, with lines from the lowest round to the highest: label of a bar → its column."""

    benchmark: str
    name: str
    title: str
    axis: str
    bars: Mapping[str, str]
    unit: float = 1.0
    log: bool = False

    def rows(self, results: Mapping[str, Any]) -> list[Row]:
        rows = results.get(self.benchmark, {"rows": ()})["rows"]
        drawn = [row for row in rows if row.get("comparison", "stage") == "stage"]
        return [row for row in drawn if any(map(row.get, self.bars.values()))]


_WORDS: Final = "The words of two novels"
_WORDS_RATE: Final = "thousand lines and words a second, all processes and the broker on the same cores"
_WORDS_CPU: Final = "microseconds of CPU time for each line or word"
_CPU: Final = {"with the broker": "cpu_us_per_tuple_with_broker", "the contestant's processes": "cpu_us_per_tuple"}
_LATENCY: Final = "complete latency in milliseconds"
_P50_P99: Final = {"p50": "p50_ms", "p99": "p99_ms"}
_WINDOW: Final = "Inits and acks of a sliding window"
_LEDGER: Final = {"ledger": "ledger", "Storm's Acker.execute": "storm", "a plain dict in Python": "dict"}
_WORKER: Final = {"worker: topic to delivered notices": "worker", "Storm's Acker.execute, in memory": "storm"}
_TUPLES: Final = {"": "tuples_per_s"}
_STAGE: Final = "One process, from topic to topic"
_SPARK: Final = "A Spark bolt, and plain copies"
PLOTS: Final = (
    Plot("word_count", "word_count", _WORDS, _WORDS_RATE, _TUPLES, 1e3),
    Plot("word_count", "word_count_cpu", f"{_WORDS}: CPU time", _WORDS_CPU, _CPU),
    Plot("word_count", "word_count_latency", f"{_WORDS}: from emit to ack", _LATENCY, _P50_P99, log=True),
    Plot("pipeline", "pipeline", "A JSON pipeline", "thousand clicks a second", {"": "clicks_per_s"}, 1e3),
    Plot("ledger", "ledger", _WINDOW, "million messages a second, by pending trees", _LEDGER, 1e6),
    Plot("worker", "worker", "One worker process", "million entries a second, by pending trees", _WORKER, 1e6),
    Plot("topology", "topology_stage", _STAGE, "thousand tuples a second", _TUPLES, 1e3),
    Plot("spark", "spark", _SPARK, "thousand rows a second", {"": "rows_per_s"}, 1e3),
)
_LABEL: Final = ("job", "pending", "contestant", "settings")
"""The columns that name a row in a plot."""


def shown(value: Any) -> str:
    """A value as it stands in a table."""
    match value:
        case None:
            return ""
        case {"median": float() | int() as median, "low": low, "high": high, **_rest}:
            return f"{shown(median)} ({shown(low)} to {shown(high)})"
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
    columns = list(dict.fromkeys(name for row in rows for name in row))
    if len(rows) == 1:
        return ["| | |", "|---|---|", *(f"| {column} | {shown(rows[0][column])} |" for column in columns)]
    return [
        "| " + " | ".join(columns) + " |",
        "|" + "---|" * len(columns),
        *("| " + " | ".join(shown(row.get(column)) for column in columns) + " |" for row in rows),
    ]


def section(result: Mapping[str, Any], plots: Sequence[Plot]) -> str:
    name = result["benchmark"]
    lines = [f"## {_TITLES[name]}", "", f"`benchmarks/results/{name}.json`", ""]
    for plot in plots:
        lines += [f"![{plot.title}](benchmarks/{plot.name}.png)", ""]
    lines += table(result["rows"])
    if result.get("ratios"):
        lines += ["", "| ratio | |", "|---|---|"]
        lines += [f"| {ratio} | {shown(value)} |" for ratio, value in result["ratios"].items()]
    for label in ("settings", "versions", "machine"):
        lines += ["", f"{label.capitalize()}: {shown(result[label])}."]
    return "\n".join(lines) + "\n"


def page(results: Mapping[str, Any]) -> str:
    """The whole page."""
    drawn = [plot for plot in PLOTS if plot.rows(results)]
    names = [name for name in _TITLES if name in results]
    sections = (section(results[name], [plot for plot in drawn if plot.benchmark == name]) for name in names)
    return "\n".join([_HEAD, *sections])


def draw(plot: Plot, rows: Sequence[Row], file: Path) -> None:
    import matplotlib.pyplot as plt

    plt.switch_backend("Agg")
    figure, axes = plt.subplots(figsize=(8, max(3.0, 0.5 + 0.3 * len(rows) * len(plot.bars))), layout="constrained")
    height = 0.8 / len(plot.bars)
    for number, (name, column) in enumerate(plot.bars.items()):
        drawn = [(at, row[column]) for at, row in enumerate(rows) if row.get(column)]
        medians = [spread["median"] / plot.unit for _, spread in drawn]
        below = [(spread["median"] - spread["low"]) / plot.unit for _, spread in drawn]
        above = [(spread["high"] - spread["median"]) / plot.unit for _, spread in drawn]
        places = [at + (number - (len(plot.bars) - 1) / 2) * height for at, _ in drawn]
        bars = axes.barh(places, medians, 0.9 * height, xerr=[below, above], capsize=2, label=name)
        axes.bar_label(bars, fmt="%.3g", padding=4)
    labels = [", ".join(shown(row[column]) for column in _LABEL if column in row) for row in rows]
    axes.set_yticks(range(len(rows)), labels)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set(title=plot.title, xlabel=plot.axis, xscale="log" if plot.log else "linear")
    if len(plot.bars) > 1:
        axes.legend()
    # Without the version, the same figures give the same file.
    figure.savefig(file, dpi=110, metadata={"Software": None})
    plt.close(figure)


def main(root: Path = _ROOT) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", action="store_true", help="leave the plots as they are")
    given = parser.parse_args()
    files = sorted((root / "benchmarks" / "results").glob("*.json"))
    results = {file.stem: json.loads(file.read_text()) for file in files}
    if missing := README_TABLES.keys() - results.keys():
        sys.exit(f"There are no results of {', '.join(sorted(missing))} yet: run make bench")
    readme, docs = root / "README.md", root / "docs"
    for name, short in README_TABLES.items():
        readme.write_text(short.within(readme.read_text(), results[name]))
    (docs / "benchmarks.md").write_text(page(results))
    for plot in () if given.tables else PLOTS:
        if rows := plot.rows(results):
            draw(plot, rows, docs / "benchmarks" / f"{plot.name}.png")


if __name__ == "__main__":
    main()

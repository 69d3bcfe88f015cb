"""Makes the tables of `docs/benchmarks.md` and of the README, and the plots, of `benchmarks/results`.

    make bench-report
    python -m benchmarks.report --tables        # without plots, which need matplotlib

It needs only the standard library, and matplotlib for plots. A table stands between two marks with its name.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_ROOT: Final = Path(__file__).resolve().parents[1]
IN_WORDS: Final = {
    "storm": "Storm, bolts in Java, from its spout, 800 lines open",
    "pystorm": "Storm, bolts in Python (pystorm), from its spout, 800 lines open",
    "quixstreams": "Quix Streams, one process, from a topic to a topic, durable counts",
    "quixstreams-2": "Quix Streams, two processes, from a topic to a topic, durable counts",
    "bytewax": "Bytewax, one process, from a topic to a topic, durable counts",
    "ours": "kafka-acker, from its spout, tuple by tuple, 800 lines open",
    "ours-arrow": "kafka-acker, from its spout, in record batches, 800 lines open",
    "ours-kafka": "kafka-acker, from a topic, tuple by tuple, 20,000 lines open",
    "ours-kafka-arrow": "kafka-acker, from a topic, in record batches, 20,000 lines open",
    "ours-state": "kafka-acker, from a topic to a topic, durable counts, tuple by tuple, 20,000 lines open",
    "ours-steps": "kafka-acker, from a topic to a topic, durable counts, steps, 20,000 lines open",
}
"""The contestants of the word count in words."""

STEPS: Final = {
    "bytewax": "Bytewax, one process",
    "quixstreams": "Quix Streams, one process",
    "quixstreams-2": "Quix Streams, two processes",
    "faust": "Faust, one process",
    "bytewax-msgspec": "Bytewax, one process, JSON by msgspec",
    "loop": "a loop of confluent-kafka, one process",
    "loop-msgspec": "a loop of confluent-kafka, one process, JSON by msgspec",
    "ours-steps": "kafka-acker, steps, one process",
    "ours-steps-msgspec": "kafka-acker, steps, one process, JSON by msgspec",
    "ours-steps-msgspec-at-most-once": "kafka-acker, steps, at most once, one process, JSON by msgspec",
    "ours": "kafka-acker, chained, one process",
    "ours-2": "kafka-acker, chained, two processes",
    "ours-columns": "kafka-acker, chained, in record batches, one process",
    "ours-at-most-once": "kafka-acker, chained, at most once, one process",
    "ours-exactly-once": "kafka-acker, chained, exactly once, one process",
    "ours-unchained": "kafka-acker, a process for each step",
    "ours-unchained-columns": "kafka-acker, a process for each step, in record batches",
    "ours-unchained-at-most-once": "kafka-acker, a process for each step, at most once",
    "ours-unchained-exactly-once": "kafka-acker, a process for each step, exactly once",
}
"""The contestants of the pipeline in words."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Section:
    """A benchmark in the table: the heading of the page that it links, the label of a row, and its columns."""

    title: str
    label: Callable[[Row], str]
    columns: tuple[str, str, str, str]
    """Rate, CPU time, p50 and p99: keys of a row, empty for none."""
    command: Callable[[Row], str]

    def rows(self, result: Mapping[str, Any]) -> Iterator[str]:
        """The rows of the table, the first one with a link."""
        name, command = f"[{self.title.partition(',')[0]}](#{_anchor(self.title)})", ""
        for row in result["rows"]:
            before, command = command, self.command(row)
            rate, cpu, *latencies = (shown(row.get(column)) for column in self.columns)
            cells = f"| {name}", self.label(row), rate, cpu, "; ".join(filter(None, latencies))
            yield " | ".join((*cells, f"`{command}` |" if command != before else "|"))
            name = ""


def _open_trees(row: Row) -> str:
    storm = f"; Storm's `Acker.execute` {shown(row['storm'])}" if "storm" in row else ""
    return f"{shown(row['pending'])} open trees{storm}"


_LATENCIES: Final = ("", "", "p50_ms", "p99_ms")
SECTIONS: Final = {
    "word_count": Section(
        "A word count, compared with others",
        lambda row: IN_WORDS[row["contestant"]],
        ("tuples_per_s", "cpu_us_per_tuple_with_broker", "p50_ms", "p99_ms"),
        lambda row: f"word_count --only {row['contestant']}",
    ),
    "pipeline": Section(
        "A JSON pipeline, compared with others",
        lambda row: STEPS[row["contestant"]],
        ("clicks_per_s", "cpu_us_per_click_with_broker", "", ""),
        lambda row: f"pipeline --only {row['contestant']}",
    ),
    "latency": Section(
        "Complete latency",
        lambda row: f"kafka-acker, {row['hops']} hops, at {shown(row['rate'])} trees/s",
        _LATENCIES,
        lambda _row: "latency",
    ),
    "latency_of_guarantees": Section(
        "Guarantees: latency",
        lambda row: f"{row['guarantee']}, at {shown(row['rate'])} tuples/s",
        _LATENCIES,
        lambda _row: "latency --guarantees",
    ),
    "ledger": Section("The ledger", _open_trees, ("ledger", "", "", ""), lambda _row: "ledger"),
    "worker": Section("One acker worker", _open_trees, ("worker", "", "", ""), lambda _row: "worker"),
    "spark": Section(
        "A Spark bolt", lambda row: str(row["job"]), ("rows_per_s", "cpu_us_per_row", "", ""), lambda _row: "spark"
    ),
}
_PEERS: Final = ("kafka", "storm", "java", "pystorm", "quixstreams", "bytewax", "faust-streaming", "pyspark")


def figures(results: Mapping[str, Any]) -> list[str]:
    """The table of all benchmarks."""
    heads = "| benchmark | program | a second | CPU time, µs | p50; p99, ms | command |"
    rows = (row for name, section in SECTIONS.items() if name in results for row in section.rows(results[name]))
    return [heads, "|---" * 6 + "|", *rows]


def runs(results: Mapping[str, Any]) -> list[str]:
    """The table of the files, with the machine and the versions of each."""
    lines = ["| file | rounds | cores | versions |", "|---" * 4 + "|"]
    for name in SECTIONS.keys() & results.keys():
        result, machine = results[name], results[name]["machine"]
        versions = ", ".join(f"{of} {version}" for of, version in result["versions"].items() if of in _PEERS)
        rounds, cores = result["settings"].get("rounds", 1), f"{machine['cpus']} ({machine['processor']})"
        lines.append(f"| `{name}.json` | {rounds} | {cores} | {versions} |")
    return [*lines[:2], *sorted(lines[2:])]


def short(results: Mapping[str, Any]) -> list[str]:
    """The table of the README: the word count."""
    columns = {"tuples_per_s": "", "cpu_us_per_tuple_with_broker": " µs", "p50_ms": " ms", "p99_ms": " ms"}
    heads = "| word count | lines and words/s | CPU time each, broker included | latency p50 | p99 |"
    lines = [heads, "|---" * 5 + "|"]
    for row in results["word_count"]["rows"]:
        cells = (f"{shown(row[key])}{unit}" if key in row else "" for key, unit in columns.items())
        lines.append(f"| {IN_WORDS[row['contestant']]} | " + " | ".join(cells) + " |")
    return lines


TABLES: Final = {
    "docs/benchmarks.md": {"figures": figures, "runs": runs},
    "README.md": {"word count": short},
}
"""Document → its tables by name."""


def document(text: str, tables: Mapping[str, Callable[[Mapping[str, Any]], list[str]]], results: Row) -> str:
    """A document with its tables between their marks."""
    for name, table in tables.items():
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        before, rest = text.split(begin)
        text = "\n".join((before + begin, *table(results), end + rest.split(end)[1]))
    return text


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
        return [row for row in rows if any(map(row.get, self.bars.values()))]


_WORDS: Final = "The words of two novels"
_WORDS_RATE: Final = "thousand lines and words a second, all processes and the broker on the same cores"
_WORDS_CPU: Final = "microseconds of CPU time for each line or word"
_CPU: Final = {"with the broker": "cpu_us_per_tuple_with_broker", "the contestant's processes": "cpu_us_per_tuple"}
_LATENCY: Final = "complete latency in milliseconds"
_P50_P99: Final = {"p50": "p50_ms", "p99": "p99_ms"}
_WINDOW: Final = "Inits and acks of a sliding window"
_LEDGER: Final = {"ledger": "ledger", "Storm's Acker.execute": "storm", "a plain dict in Python": "dict"}
_SPARK: Final = "A Spark bolt, and plain copies"
PLOTS: Final = (
    Plot("word_count", "word_count", _WORDS, _WORDS_RATE, {"": "tuples_per_s"}, 1e3),
    Plot("word_count", "word_count_cpu", f"{_WORDS}: CPU time", _WORDS_CPU, _CPU),
    Plot("word_count", "word_count_latency", f"{_WORDS}: from emit to ack", _LATENCY, _P50_P99, log=True),
    Plot("pipeline", "pipeline", "A JSON pipeline", "thousand clicks a second", {"": "clicks_per_s"}, 1e3),
    Plot("ledger", "ledger", _WINDOW, "million messages a second, by pending trees", _LEDGER, 1e6),
    Plot("spark", "spark", _SPARK, "thousand rows a second", {"": "rows_per_s"}, 1e3),
)
_LABEL: Final = ("job", "pending", "contestant")
"""The columns that name a row in a plot."""


def shown(value: Any) -> str:
    """A value as it stands in a table."""
    match value:
        case None:
            return ""
        case {"median": float() | int() as median, **_rest}:
            return shown(median)
        case int() | float() if abs(value) >= 1_000_000:
            return f"{value / 1e6:.4g} M"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"
    return str(value)


def _anchor(title: str) -> str:
    return re.sub("[^a-z0-9]+", "-", title.lower()).strip("-")


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
    results = {file.stem: json.loads(file.read_text()) for file in (root / "benchmarks" / "results").glob("*.json")}
    if "word_count" not in results:
        sys.exit("There is no result of word_count yet: run make bench")
    for name, tables in TABLES.items():
        file = root / name
        file.write_text(document(file.read_text(), tables, results))
    for plot in () if given.tables else PLOTS:
        if rows := plot.rows(results):
            draw(plot, rows, root / "docs" / "benchmarks" / f"{plot.name}.png")


if __name__ == "__main__":
    main()

"""Makes `docs/benchmarks.md` with its plots, and the tables of the README, of `benchmarks/results`.

    make bench-report
    python -m benchmarks.report --tables        # without plots, which need matplotlib

It needs only the standard library, and matplotlib for plots.
"""

import argparse
import json
import re
import sys
import textwrap
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

STEPS: Final = {
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
    "ours-unchained-at-most-once": "kafka-acker, a process for each step, at most once",
    "ours-unchained-exactly-once": "kafka-acker, a process for each step, exactly once",
    "ours-merged": "kafka-acker, the steps in one bolt, unchained",
    "plain": "a plain loop over confluent-kafka, one process",
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
            cells = (f"{shown(row[key])}{unit}" if key in row else "" for key, unit in units.items())
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
        return [row for row in rows if any(map(row.get, self.bars.values()))]


_WORDS: Final = "The words of two novels"
_WORDS_RATE: Final = "thousand lines and words a second, all processes and the broker on the same cores"
_WORDS_CPU: Final = "microseconds of CPU time for each line or word"
_CPU: Final = {"with the broker": "cpu_us_per_tuple_with_broker", "the contestant's processes": "cpu_us_per_tuple"}
_LATENCY: Final = "complete latency in milliseconds"
_P50_P99: Final = {"p50": "p50_ms", "p99": "p99_ms"}
_WINDOW: Final = "Inits and acks of a sliding window"
_LEDGER: Final = {"ledger": "ledger", "Storm's Acker.execute": "storm", "a plain dict in Python": "dict"}
_WORKER: Final = {"worker: topic to delivered notices": "worker", "Storm's Acker.execute, in memory": "storm"}
_SPARK: Final = "A Spark bolt, and plain copies"
PLOTS: Final = (
    Plot("word_count", "word_count", _WORDS, _WORDS_RATE, {"": "tuples_per_s"}, 1e3),
    Plot("word_count", "word_count_cpu", f"{_WORDS}: CPU time", _WORDS_CPU, _CPU),
    Plot("word_count", "word_count_latency", f"{_WORDS}: from emit to ack", _LATENCY, _P50_P99, log=True),
    Plot("pipeline", "pipeline", "A JSON pipeline", "thousand clicks a second", {"": "clicks_per_s"}, 1e3),
    Plot("ledger", "ledger", _WINDOW, "million messages a second, by pending trees", _LEDGER, 1e6),
    Plot("worker", "worker", "One worker process", "million entries a second, by pending trees", _WORKER, 1e6),
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
        case Mapping():
            return ", ".join(f"{key} {shown(each)}" for key, each in value.items())
        case list():
            return ", ".join(map(shown, value))
    return str(value).replace("|", "\\|")


@dataclass(frozen=True, slots=True)
class Section:
    """A benchmark on the page: a row of the table for each row of its result, and its plots with the method."""

    title: str
    method: str
    label: Callable[[Row], str]
    columns: tuple[str, str, str, str] = ("", "", "", "")
    """Rate, CPU time, p50 and p99: keys of a row, `a.b` for one within another, `a|b` for the first; empty for none."""
    command: Callable[[Row], str] = lambda _row: ""

    def rows(self, result: Mapping[str, Any]) -> Iterator[str]:
        """The rows of the table, the first one with a link; those without a label are in the JSON only."""
        name, command = f"[{self.title.partition(',')[0]}](#{_anchor(self.title)})", ""
        for row in result["rows"]:
            rate, cpu, *latency = (shown(_cell(row, column)) for column in self.columns)
            cells = rate, cpu, "; ".join(filter(None, latency))
            if self.label(row):
                before, command = command, self.command(row)
                yield " | ".join((f"| {name}", self.label(row), *cells, f"`{command}` |" if command != before else "|"))
                name = ""

    def text(self, result: Mapping[str, Any]) -> str:
        """The section with the plots."""
        name, machine = result["benchmark"], result["machine"]
        lines = [f"## {self.title}", "", *textwrap.wrap(self.method, 120), ""]
        for plot in PLOTS:
            if plot.benchmark == name and plot.rows({name: result}):
                lines += [f"![{plot.title}](benchmarks/{plot.name}.png)", ""]
        peers = {of: version for of, version in result["versions"].items() if of in _PEERS}
        measured = f"{result['settings'].get('rounds', 1)} rounds, {machine['cpus']} cores ({machine['processor']})"
        versions = ", ".join(f"{of} {version}" for of, version in peers.items())
        lines += [f"`{name}.json`: {measured}{versions and f'; {versions}'}."]
        return "\n".join(lines) + "\n"


def _cell(row: Row, column: str) -> Any:
    """A figure of a row; None where it has none."""
    for path in column.split("|"):
        value: Any = row
        for key in path.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        if value is not None:
            return value
    return None


def _of_storm(row: Row) -> str:
    return f"Storm's `Acker.execute` {shown(_cell(row, 'storm'))}"


def _anchor(title: str) -> str:
    return re.sub("[^a-z0-9]+", "-", title.lower()).strip("-")


_PEERS: Final = ("kafka", "storm", "java", "pystorm", "quixstreams", "bytewax", "faust-streaming", "pyspark")
_HEAD: Final = """# Benchmarks

`make bench-report` generates this page from the JSON files in `benchmarks/results/`. A figure is the median of the
rounds; the plots and the JSON also have the lowest and the highest. Programs of a benchmark took turns on one idle
machine: compare figures of one benchmark only. CPU time is that of a tuple, click or row; of the word count and the
pipeline it includes the broker's. Each command, after `python -m benchmarks.`, measures its row and the rows below it.

```
make bench-setup     # downloads the compared systems into .bench/, with Maven and pip
make bench           # all rows: two hours on an idle machine; --quick is a test of one benchmark, without a result
make bench-guard     # only ratios of speeds, under a minute; CI runs it to detect regressions
```

| benchmark | program | a second | CPU time, µs | p50; p99, ms | command |
|---|---|---|---|---|---|
"""
_FIGURES: Final = "tuples_per_s", "cpu_us_per_tuple_with_broker", "p50_ms", "p99_ms"
SECTIONS: Final = {
    "word_count": Section(
        "A word count, compared with others",
        "The words of two novels, with two tasks of each component; broker and programs share the cores. A round "
        "counts from the first tenth of its lines, from the half for Storm, whose JVM is new in each round. Each ends "
        "with a comparison with a plain count. Latency is from the emit of a line to its ack. Storm passes tuples in "
        "the memory of one worker, and counts there. Quix Streams counts in RocksDB with a changelog topic, behind a "
        "repartition topic; Bytewax counts in memory, with a recovery store each second. Both write a record for each "
        "word to a topic, and may repeat words after a crash. The JSON is without `ours-state` (durable counts, each "
        "word once), `ours-sink` (the same topic to topic, in memory) and `ours-chained`: use `--only`.",
        lambda row: IN_WORDS[row["contestant"]],
        _FIGURES,
        lambda row: f"word_count --only {row['contestant']}",
    ),
    "pipeline": Section(
        "A JSON pipeline, compared with others",
        "Clicks as JSON from one topic to another, both with two partitions: parsed, filtered (one in ten is dropped), "
        "enriched from a table in memory, formatted. Each program has these four steps in the usual way of its "
        "framework. A round measures the growth of the sink, in clicks read, and compares it with a plain loop. Our "
        "CPU time includes an idle acker worker. With a second process, Faust lost results in one of three rounds.",
        lambda row: STEPS[row["contestant"]],
        ("clicks_per_s", "cpu_us_per_click_with_broker", "", ""),
        lambda row: f"pipeline --only {row['contestant']}",
    ),
    "latency": Section(
        "Complete latency",
        "A timetable emits 1,000 trees a second over three hops, a process each. As in Storm's `ThroughputVsLatency`, "
        "latency begins at the intended emit, so a stall counts for all tuples that were due in it.",
        lambda row: f"kafka-acker, {row['hops']} hops, at {shown(row['rate'])} trees/s",
        ("", "", "p50_ms", "p99_ms"),
        lambda _row: "latency",
    ),
    "latency_of_guarantees": Section(
        "Guarantees: latency",
        "As complete latency, over two hops; with `at_most_once`, which has no acks, until the last bolt executes.",
        lambda row: f"{row['guarantee']}, at {shown(row['rate'])} tuples/s",
        ("", "", "complete_ms.p50|delivery_ms.p50", "complete_ms.p99|delivery_ms.p99"),
        lambda _row: "latency --guarantees",
    ),
    "ledger": Section(
        "The ledger",
        "A sliding window of trees in memory: old ones are acked, new ones begin. Storm's `Acker.execute` gets the "
        "same trees, in a JVM with three times the heap that it needs.",
        lambda row: f"{shown(row['pending'])} open trees; {_of_storm(row)}",
        ("ledger", "", "", ""),
        lambda _row: "ledger",
    ),
    "worker": Section(
        "One acker worker",
        "The worker reads ack batches from a topic and delivers notices; Storm's `Acker.execute` has its tuples in "
        "memory and delivers nothing.",
        lambda row: f"{shown(row['pending'])} open trees; {_of_storm(row)}",
        ("worker", "", "", ""),
        lambda _row: "worker",
    ),
    "worker_curve": Section(
        "Workers by entries of a batch",
        "As one acker worker, with 100,000 open trees and 8 partitions; the JSON has other numbers of partitions.",
        lambda row: f"{shown(row['batch'])} entries, workers: {row['workers']}" if row["partitions"] == 8 else "",
        ("worker", "", "", ""),
        lambda _row: "worker --curve",
    ),
    "sdk": Section(
        "A tuple in the SDK, by stage",
        "CPU time of the Python code for a tracked tuple, without Kafka. Stages that cannot be timed alone are "
        "differences.",
        lambda row: row["stage"],
        ("", "tracked_us", "", ""),
        lambda _row: "sdk",
    ),
    "spark": Section(
        "A Spark bolt",
        "`bolt` is a tracked bolt over packs, `untracked` the same job without entries in the ack log, `tuned_copy` "
        "copies single records, `spout` writes them as packs. CPU time includes Java and Python's workers.",
        lambda row: row["job"],
        ("rows_per_s", "cpu_us_per_row", "", ""),
        lambda _row: "spark",
    ),
}


def page(results: Mapping[str, Any]) -> str:
    """The whole page."""
    sections = {name: section for name, section in SECTIONS.items() if name in results}
    rows = (row for name, section in sections.items() for row in section.rows(results[name]))
    texts = (section.text(results[name]) for name, section in sections.items())
    return _HEAD + "\n".join(rows) + "\n\n" + "\n".join(texts)


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

"""Makes `docs/benchmarks.md` and its plots of all that lies in `benchmarks/results`.

    make bench-setup
    python -m benchmarks.report
    python -m benchmarks.report --results OTHER --docs SOMEWHERE
    python -m benchmarks.report --word-count    # prints its short table, for the README, and makes nothing

It begins with the aims, and what was measured of them. Then every result is a section with a table of its rows, whoever
wrote it; plots are shown if `benchmarks.plots` has some. It takes whatever results there are.
"""

import argparse
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks import aims, command
from benchmarks.errors import BenchmarkError
from benchmarks.plots import PLOTS
from benchmarks.results import DIRECTORY, load
from benchmarks.setup import plots

_ROOT: Final = DIRECTORY.parents[1]
_README: Final = _ROOT / "README.md"
_BEGIN: Final = "<!-- word count -->"
_END: Final = "<!-- end of word count -->"
_PLOTS: Final = "benchmarks"
_TITLES: Final = {
    "word_count": "A word count, ours beside others",
    "word_count_requests": "A word count: requests at each hop",
    "ledger": "The ledger, and memory",
    "worker": "One acker worker",
    "worker_curve": "Workers by batches, partitions and processes",
    "rebuild": "Rebuild after a kill",
    "topology": "A topology: one process, and all of them",
    "exactly_once": "Guarantees: throughput and latency",
    "latency": "Complete latency",
    "soak": "Half an hour under load",
    "sdk": "A tuple in the SDK, by stage",
    "spark": "A Spark bolt",
    "spark_parts": "A row in Spark, part by part",
    "spark_topology": "A topology with Spark in it",
}
_LEFT_OUT: Final = ("samples",)
"""Columns that are plotted, and too long for a table."""
_HEAD: Final = """# Benchmarks

Made of `benchmarks/results/` by `make bench-report`; do not edit. What each benchmark does, and what is fair about it,
stands at the top of its module; what the figures mean and where the time goes is in [performance.md](performance.md).
A figure is the median of the rounds that the settings name, with the lowest and the highest in brackets. Peers ran in
the same run on the same machine, in turn with ours.
"""


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


def table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Rows as a table; those of different comparisons as one each, and a single one read downwards."""
    kinds = list(dict.fromkeys(row.get("comparison") for row in rows))
    if len(kinds) > 1:
        return [line for kind in kinds for line in ("", *table([row for row in rows if row.get("comparison") == kind]))]
    columns = [column for column in dict.fromkeys(column for row in rows for column in row) if column not in _LEFT_OUT]
    if len(rows) == 1:
        return ["| | |", "|---|---|", *(f"| {column} | {shown(rows[0][column])} |" for column in columns)]
    return [
        "| " + " | ".join(columns) + " |",
        "|" + "---|" * len(columns),
        *("| " + " | ".join(shown(row.get(column)) for column in columns) + " |" for row in rows),
    ]


def section(found: Mapping[str, Any]) -> str:
    """A result as a section of the page."""
    name = found["benchmark"]
    lines = [f"## {_TITLES.get(name, name)}", "", f"`benchmarks/results/{name}.json`", ""]
    for plot in PLOTS:
        if plot.benchmark == name and plot.has_rows(found["rows"]):
            lines += [f"![{plot.title}]({_PLOTS}/{plot.name}.png)", ""]
    lines += table(found["rows"])
    if found.get("ratios"):
        lines += ["", "| ratio | |", "|---|---|"]
        lines += [f"| {ratio} | {shown(value)} |" for ratio, value in found["ratios"].items()]
    for label in ("settings", "versions", "machine"):
        if found.get(label):
            lines += ["", f"{label.capitalize()}: {shown(found[label])}."]
    return "\n".join(lines) + "\n"


def word_count_table(found: Mapping[str, Any]) -> str:
    """The word count in few columns: rates, CPU time with the broker, and complete latency."""
    columns = {
        "tuples_per_s": "lines and words/s",
        "cpu_us_per_tuple_with_broker": "CPU time each, broker included",
        "p50_ms": "latency p50",
        "p99_ms": "p99",
    }
    units = {"cpu_us_per_tuple_with_broker": " µs", "p50_ms": " ms", "p99_ms": " ms"}
    lines = ["| word count | " + " | ".join(columns.values()) + " |", "|---" * (1 + len(columns)) + "|"]
    for row in found["rows"]:
        cells = [f"{shown(row[key]['median'])}{units.get(key, '')}" if key in row else "" for key in columns]
        lines.append(f"| {row['contestant']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def with_word_count(text: str, found: Mapping[str, Any]) -> str:
    """The README with the short table of the word count between its marks."""
    before, rest = text.split(_BEGIN)
    _, after = rest.split(_END)
    return f"{before}{_BEGIN}\n{word_count_table(found)}\n{_END}{after}"


def aimed(results: aims.Results) -> str:
    """The table of the aims."""
    lines = ["## Aims", "", "| what | aim | measured | reached? |", "|---|---|---|---|"]
    for outcome in aims.outcomes(results):
        aim, measured = outcome.aim, outcome.measured
        figure = "" if measured is None else f"{shown(round(measured, 3))}{aim.unit}"
        lines.append(f"| {aim.what} | {aim.target} | {figure} | {outcome.reached} |")
    return "\n".join(lines) + "\n"


def page(results: aims.Results) -> str:
    """The whole page."""
    names = [*(name for name in _TITLES if name in results), *(name for name in results if name not in _TITLES)]
    return "\n".join([_HEAD, aimed(results), *(section(results[name]) for name in names)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=DIRECTORY, help="the directory with the results")
    parser.add_argument("--docs", type=Path, default=_ROOT / "docs", help="the directory to write the page to")
    parser.add_argument("--word-count", action="store_true", help="print the short table of the word count only")
    given = parser.parse_args()
    results = load(given.results)
    if not results:
        raise BenchmarkError(f"There are no results in {given.results} yet: run make bench")
    if given.word_count:
        if "word_count" not in results:
            raise BenchmarkError(f"There is no word count in {given.results} yet: run python -m benchmarks.word_count")
        print(word_count_table(results["word_count"]))
        return
    if "word_count" in results and given.docs == _ROOT / "docs":
        _README.write_text(with_word_count(_README.read_text(), results["word_count"]))
    given.docs.mkdir(parents=True, exist_ok=True)
    drawing = ["-m", "benchmarks.plots", str(given.results.resolve()), str((given.docs / _PLOTS).resolve())]
    if subprocess.run([str(plots.ENVIRONMENT.python()), *drawing], check=False, cwd=_ROOT).returncode:
        raise BenchmarkError("The plots could not be drawn: see above")
    (given.docs / "benchmarks.md").write_text(page(results))


if __name__ == "__main__":
    command.run(main)

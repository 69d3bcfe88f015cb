"""What the benchmarks are to show, and whether the results do.

Each aim looks into the results for one figure. Where the benchmark has not been run, or not in the size that the aim is
about, there is none, and the report says so.
"""

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

Results = Mapping[str, Mapping[str, Any]]
"""Benchmark → what it wrote."""

MEMORY_GROWTH: Final = 5.0
"""Percent, from the middle third of a soak to the last, that still count as flat."""
LATENCY_GROWTH: Final = 10.0
SOAK_MINUTES: Final = 29.5


@dataclass(frozen=True, slots=True)
class Aim:
    """One line of the report.

    Attributes:
        benchmark: whose results are looked at.
        what: is measured, and against what.
        least: the least that is aimed at; None if there is a `most`.
        most: the most that is aimed at.
        unit: of both, and of what was measured.
        measured: finds the figure in the rows of the benchmark; None if it is not there.
    """

    benchmark: str
    what: str
    measured: Callable[[Mapping[str, Any]], float | None]
    least: float | None = None
    most: float | None = None
    unit: str = " \N{MULTIPLICATION SIGN}"

    @property
    def target(self) -> str:
        """As it is told."""
        return f"≥ {self.least:,g}{self.unit}" if self.least is not None else f"≤ {self.most:,g}{self.unit}"

    def is_reached(self, measured: float) -> bool:
        """Whether that is good enough."""
        if self.least is not None:
            return measured >= self.least
        return self.most is not None and measured <= self.most


def _row(found: Mapping[str, Any], **wanted: Any) -> Mapping[str, Any] | None:
    for row in found["rows"]:
        if all(row.get(name) == value for name, value in wanted.items()):
            return dict(row)
    return None


def _cell(column: str, of: str = "", **wanted: Any) -> Callable[[Mapping[str, Any]], float | None]:
    """The value of a column in the row that has all of `wanted`; `of` picks the median of a spread."""

    def find(found: Mapping[str, Any]) -> float | None:
        row = _row(found, **wanted)
        value = None if row is None else row.get(column)
        return value[of] if of and value is not None else value

    return find


def _ratio(name: str) -> Callable[[Mapping[str, Any]], float | None]:
    return lambda found: found.get("ratios", {}).get(name)


def _rate(found: Mapping[str, Any], contestant: str, settings: str) -> float | None:
    row = _row(found, comparison="stage", contestant=contestant, settings=settings)
    return None if row is None else float(row["tuples_per_s"]["median"])


def best_framework(found: Mapping[str, Any]) -> tuple[str, float] | None:
    """The fastest framework, tuned or not, and its rate; None if none was measured."""
    rates = [
        (float(row["tuples_per_s"]["median"]), f"{row['contestant']} {row['settings']}")
        for row in found["rows"]
        if row["comparison"] == "stage" and row["contestant"] not in ("kafka-acker", "plain")
    ]
    if not rates:
        return None
    rate, name = max(rates)
    return name, rate


def _to_best_framework(found: Mapping[str, Any]) -> float | None:
    best, tracked = best_framework(found), _rate(found, "kafka-acker", "at_least_once")
    return None if best is None or tracked is None else tracked / best[1]


def _second_worker(found: Mapping[str, Any]) -> float | None:
    """The gain by a second worker with the smallest batches, of which the broker has the fewest bytes to move.

    The median over the numbers of partitions: the best of many points would be what noise made of it.
    """
    rates = {(row["partitions"], row["batch"], row["workers"]): row["worker"]["median"] for row in found["rows"]}
    pairs = [(partitions, batch) for partitions, batch, workers in rates if workers == 2]
    smallest = min((batch for _, batch in pairs), default=None)
    gains = [rates[*pair, 2] / rates[*pair, 1] for pair in pairs if pair[1] == smallest]
    return statistics.median(gains) if gains else None


def _rebuilt(found: Mapping[str, Any]) -> float | None:
    """Millions of entries a second, of a window of ten million."""
    whole = (row["entries_per_second"]["median"] for row in found["rows"] if row["entries"] >= 10**7)
    return next((rate / 1e6 for rate in whole), None)


def _soaked(found: Mapping[str, Any]) -> Mapping[str, Any] | None:
    (row,) = found["rows"]
    return row if row["minutes"] >= SOAK_MINUTES and not row["interrupted"] else None


def _memory_growth(found: Mapping[str, Any]) -> float | None:
    row = _soaked(found)
    drift = {} if row is None else row["drift_percent"]
    # A broker's Java takes of its heap what it is allowed to.
    ours = (value for name, value in drift.items() if name.startswith("resident") and not name.endswith("broker"))
    return max(ours, default=None)


def _latency_growth(found: Mapping[str, Any]) -> float | None:
    row = _soaked(found)
    return None if row is None else row["drift_percent"].get("p50")


def _left_over(found: Mapping[str, Any]) -> float | None:
    row = _soaked(found)
    return None if row is None else row["pending_at_end"] + row["open_in_ackers_at_end"] + row["failed"]


_STORM: Final = "against Storm's `Acker.execute` in memory"
_WORKER: Final = "one worker, topic to delivered notices"
_LATENCY: Final = "complete latency at 1,000 trees/s over three hops"
_SIDES: Final = {
    "one process": {
        "": "{} to at_most_once, one process",
        ", by CPU time": "{} to at_most_once, one process, by CPU time",
    },
    "whole topology from a topic": {
        "": "{} to at_most_once, pipeline from topic, tuples_per_s",
        ", by CPU time": "{} to at_most_once, pipeline from topic, tuples_per_cpu_second",
    },
}
"""What is compared → how → the name of the ratio. `at_most_once` waits for a commit before each read is executed, which
lowers its rate more than its CPU time, so a ratio of rates alone would flatter us."""

_PEERS: Final = (
    ("bytewax", "Bytewax", 1.0),
    ("quixstreams-2", "Quix Streams in two processes", 2.5),
    ("pystorm", "Storm with pystorm", 10),
    ("storm", "Storm in Java", 0.25),
)

AIMS: Final = (
    *(
        Aim("word_count", f"word count against {other}", _ratio(f"ours to {name}"), least=least)
        for name, other, least in _PEERS
    ),
    *(
        Aim(
            "word_count",
            f"its {quantile} at 400 pending against Storm in Java",
            _ratio(f"ours to storm, {quantile}"),
            most=4,
        )
        for quantile in ("p50", "p99")
    ),
    Aim("ledger", f"ledger, 100 k pending, {_STORM}", _cell("speed_ratio", pending=100_000), least=5),
    Aim("ledger", f"ledger, 1 M pending, {_STORM}", _cell("speed_ratio", pending=1_000_000), least=8),
    Aim("ledger", "memory of a pending tree at 10 M, against Storm's", _cell("memory_ratio", pending=10**7), most=0.45),
    Aim("worker", f"{_WORKER}, 100 k pending, {_STORM}", _cell("ratio", pending=100_000), least=2),
    Aim("worker", f"{_WORKER}, 1 M pending, {_STORM}", _cell("ratio", pending=1_000_000), least=3),
    Aim("worker_curve", "two workers against one, with the smallest batches", _second_worker, least=1.7),
    Aim("rebuild", "rebuild of 10 M entries after a kill", _rebuilt, least=5, unit=" M entries/s"),
    Aim("topology", "one process, tracked, against the fastest framework", _to_best_framework, least=3),
    Aim(
        "topology",
        "one process, tracked, against the tuned plain loop",
        _ratio("at_least_once to plain tuned"),
        least=0.9,
    ),
    Aim(
        "topology",
        "one process that works on columns, tracked, against the tuned plain loop",
        _ratio("columns to plain tuned"),
        least=3,
    ),
    Aim("topology", "one process, 8 ack partitions against 1", _ratio("8 ack partitions to 1, one process"), least=0.9),
    Aim(
        "topology",
        "whole topology from a topic, exactly once against at least once",
        _ratio("exactly_once to at_least_once, pipeline from topic"),
        least=0.7,
    ),
    *(
        Aim("topology", f"{where}, {side} against `at_most_once`{how}", _ratio(name.format(guarantee)), least=least)
        for where, names in _SIDES.items()
        for how, name in names.items()
        for side, guarantee, least in (("tracked", "at_least_once", 0.75), ("exactly once", "exactly_once", 0.6))
    ),
    *(
        Aim(
            "spark",
            f"tracked bolt in Spark against the same job untracked, {transform}",
            _ratio(f"bolt {transform} to untracked"),
            least=0.8,
        )
        for transform in ("select", "where", "explode", "groupBy")
    ),
    Aim(
        "spark", "tracked bolt in Spark against a copy of single records", _ratio("bolt select to tuned_copy"), least=1
    ),
    Aim("spark", "tracked spout in Spark against a copy of single records", _ratio("spout to tuned_copy"), least=0.7),
    Aim("latency", f"{_LATENCY}, p50", _cell("p50_ms", "median", rate=1_000), most=5, unit=" ms"),
    Aim("latency", f"{_LATENCY}, p99", _cell("p99_ms", "median", rate=1_000), most=20, unit=" ms"),
    Aim(
        "soak",
        "30 minutes: growth of the memory of any process but the broker",
        _memory_growth,
        most=MEMORY_GROWTH,
        unit=" %",
    ),
    Aim("soak", "30 minutes: growth of the median latency", _latency_growth, most=LATENCY_GROWTH, unit=" %"),
    Aim("soak", "30 minutes: trees left over or failed", _left_over, most=0, unit=""),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an aim.

    Attributes:
        aim: which.
        measured: None if it was not measured.
    """

    aim: Aim
    measured: float | None

    @property
    def reached(self) -> str:
        """As it is told."""
        if self.measured is None:
            return "not measured"
        return "yes" if self.aim.is_reached(self.measured) else "no"


def outcomes(results: Results, aims: Iterable[Aim] = AIMS) -> Iterator[Outcome]:
    """Of each aim."""
    for aim in aims:
        found = results.get(aim.benchmark)
        yield Outcome(aim, None if found is None else aim.measured(found))

"""A JSON pipeline of four small steps, from topic to topic: ours compared with Bytewax, Quix Streams and Faust.

    make bench-setup
    python -m benchmarks.pipeline
    python -m benchmarks.pipeline --only ours bytewax --rounds 3
    python -m benchmarks.pipeline --quick --only ours bytewax

Clicks are parsed, filtered, enriched and formatted (`benchmarks.clicks`). A round measures the growth of the
sink between the first and the last tenth of the results, and then checks the results. docs/performance.md describes the
contestants.
"""

import contextlib
import os
import shutil
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks import harness
from benchmarks.clicks import CLICKS, PIPELINE, ClicksPlan, clicks, results
from benchmarks.harness import BenchmarkError, Spread
from benchmarks.processes import Program, Sample, running_program, running_topology, steady, watch
from benchmarks.setup import FRAMEWORKS, peer_program
from benchmarks.topics import Topics, broker

PARTITIONS: Final = 2
_QUICK: Final = 20_000
_FIRST, _LAST = 0.1, 0.9  # a round is measured between these shares of its results


@dataclass(frozen=True, slots=True)
class Running:
    """The processes of a contestant; `check` raises an error if the round is not valid any more."""

    pids: Sequence[int]
    check: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Ours:
    """Our topology: the settings of its `ClicksPlan`, and the number of processes of its spout."""

    clicks: int  # of a round
    settings: Mapping[str, Any]
    processes: int = 1
    framework: str = ""

    @contextlib.contextmanager
    def run(self, topics: Topics, name: str, source: str, sink: str, _directory: Path) -> Iterator[Running]:
        plan = ClicksPlan(name, source, sink, **self.settings)
        with running_topology(topics, PIPELINE, plan.environment, {CLICKS: self.processes}) as running:

            def check() -> None:
                running.check()
                if failures := running.failures():
                    raise BenchmarkError(f"trees failed, so this measures nothing: {failures}")

            yield Running([pid for pids in running.pids().values() for pid in dict.fromkeys(pids)], check)


@dataclass(frozen=True, slots=True)
class Peer:
    """A framework, in processes that share the partitions of the source."""

    clicks: int
    framework: str
    processes: int = 1

    @contextlib.contextmanager
    def run(self, topics: Topics, name: str, source: str, sink: str, directory: Path) -> Iterator[Running]:
        programs: list[Program] = []
        with contextlib.ExitStack() as stack:
            for number in range(self.processes):
                own = directory / str(number)
                own.mkdir()
                arguments = [topics.servers, source, sink, name, "--clicks", str(own)]
                command = peer_program(self.framework, *arguments)
                programs.append(stack.enter_context(running_program(self.framework, command)))

            def check() -> None:
                for program in programs:
                    program.check()

            yield Running([program.process.pid for program in programs], check)


CONTESTANTS: Final[dict[str, Ours | Peer]] = {
    "ours": Ours(1_000_000, {}),
    "ours-2": Ours(1_000_000, {}, processes=2),
    "ours-columns": Ours(3_000_000, {"columns": True}),
    "ours-at-most-once": Ours(1_000_000, {"guarantee": "at_most_once"}),
    "ours-exactly-once": Ours(1_000_000, {"guarantee": "exactly_once"}),
    "ours-unchained": Ours(400_000, {"steps": "unchained"}),
    "ours-unchained-columns": Ours(1_000_000, {"steps": "unchained", "columns": True}),
    "ours-merged": Ours(500_000, {"steps": "merged"}),
    "bytewax": Peer(1_000_000, "bytewax"),
    "quixstreams": Peer(500_000, "quixstreams"),
    "quixstreams-2": Peer(500_000, "quixstreams", processes=2),
    "faust": Peer(100_000, "faust-streaming"),
}


@dataclass(frozen=True, slots=True)
class Round:
    """The steady part of a round, in clicks."""

    clicks: float
    steady: Sample

    def figures(self) -> dict[str, float]:
        cpu = self.steady.figures
        return {
            "clicks_per_s": self.clicks / self.steady.at,
            "cpu_us_per_click": cpu["contestant"] / self.clicks * 1e6,
            "cpu_us_per_click_with_broker": sum(cpu.values()) / self.clicks * 1e6,
        }

    def __str__(self) -> str:
        return ", ".join(f"{name} {value:,.2f}" for name, value in self.figures().items())


def filled(topics: Topics, count: int) -> str:
    """The name of a topic with `count` clicks, spread over its partitions; the first call for a count fills it."""
    name = f"clicks.{count}"
    topics.create({name: PARTITIONS})
    if not topics.end(name):
        topics.write(name, ((line, number % PARTITIONS, None) for number, line in enumerate(clicks(count))))
    return name


def run_round(contestant: Ours | Peer, topics: Topics, count: int) -> Round:
    """Runs one round, with a sink of its own."""
    name = f"pipeline-{uuid.uuid4().hex[:8]}"
    directory = Path(tempfile.mkdtemp(prefix=f"{name}-"))
    source, sink, expected = filled(topics, count), f"{name}.sink", results(count)
    topics.create({sink: PARTITIONS})
    try:
        with contestant.run(topics, name, source, sink, directory) as running:
            pids = {"contestant": running.pids, "broker": [topics.pid]}
            done = partial(topics.end, sink, PARTITIONS)
            samples = watch(done, pids, running.check, total=expected.total())
        check(topics, sink, expected)
    finally:
        topics.delete(name)
        shutil.rmtree(directory, ignore_errors=True)
    total = expected.total()
    part = steady(samples, _FIRST * total, _LAST * total)
    return Round((_LAST - _FIRST) * count, part)


def check(topics: Topics, sink: str, expected: Counter[bytes]) -> None:
    """Raises `BenchmarkError` if a result of the plain loop is missing; replays may have added duplicates."""
    found: Counter[bytes] = Counter()

    def take(message: Any) -> None:
        found[message.value().replace(b", ", b",")] += 1  # some frameworks write JSON without spaces

    topics.read(sink, take, PARTITIONS)
    plain = Counter[bytes]()
    for value, number in expected.items():
        plain[value.replace(b", ", b",")] += number
    if lost := plain - found:
        raise BenchmarkError(f"{lost.total():,} of {plain.total():,} results are missing, such as {next(iter(lost))!r}")


def ratios(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Speed and CPU time of each topology of ours to the frameworks and to `ours`, by medians; above 1 is better."""
    calculated: dict[str, float] = {}
    by_name = {row["contestant"]: row for row in rows}
    for name, row in by_name.items():
        for other, its in by_name.items():
            if name == other or not name.startswith("ours") or (other.startswith("ours") and other != "ours"):
                continue
            first, second = ("clicks_per_s", row, its), ("cpu_us_per_click", its, row)
            for label, (column, above, below) in (
                (f"{name} to {other}", first),
                (f"{name} to {other}, by CPU", second),
            ):
                calculated[label] = round(above[column].median / below[column].median, 3)
    return calculated


def main() -> None:
    parser = harness.parser(__doc__, f"one round of {_QUICK:,} clicks")
    parser.add_argument("--only", nargs="+", choices=list(CONTESTANTS), metavar="NAME", help=", ".join(CONTESTANTS))
    parser.add_argument("--rounds", type=int, help="5 unless given")
    parser.add_argument("--clicks", type=int, help="clicks of each round, instead of about 10 s on two cores")
    given = parser.parse_args()
    rounds = given.rounds or (1 if given.quick else 5)
    contestants = {name: CONTESTANTS[name] for name in given.only or CONTESTANTS}
    versions: dict[str, str] = {}
    for each in contestants.values():
        if each.framework:
            versions |= FRAMEWORKS[each.framework].versions()
    kept_in = harness.directory(given, whole=given.only is None and given.clicks is None)
    harness.await_idle(kept_in)
    host = harness.machine()
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, [0, 1])
    with broker() as topics:
        count = given.clicks or (_QUICK if given.quick else None)
        runs = {name: partial(run_round, each, topics, count or each.clicks) for name, each in contestants.items()}
        measured = harness.in_turn(runs, rounds, warm=0 if given.quick else harness.warm_rounds(len(runs)))
    rows = []
    for name, of in measured.items():
        figures = [each.figures() for each in of]
        spread = {column: Spread.of([each[column] for each in figures], 2) for column in figures[0]}
        rows.append({"contestant": name, "clicks": count or contestants[name].clicks, **spread})
    harness.publish(
        *("pipeline", host, rows, {"rounds": rounds, "partitions": PARTITIONS}, kept_in),
        versions=versions,
        ratios=ratios(rows),
    )


if __name__ == "__main__":
    harness.run(main)

"""Comparisons of programs that do the same work: each round is watched from outside, checked, and measured.

A round is measured in its steady part, between the first and the last tenth of what is to be processed. This begins
later where a contestant compiles while it runs, and ends earlier where much is under way at a time: at its end as much
has to be under way as at its beginning, or work would be left out. docs/benchmarks.md describes the contestants.
"""

import contextlib
import os
import shutil
import tempfile
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

from confluent_kafka import Message

from benchmarks import harness
from benchmarks.harness import Benchmark, BenchmarkError
from benchmarks.processes import Program, Sample, running_program, steady, watch
from benchmarks.setup import FRAMEWORKS, peer_program
from benchmarks.topics import Record, Topics, broker
from tuple_tree.manifest import DEFAULT_ACK_PARTITIONS

LAST: Final = 0.9  # share of a round with which its steady part ends, unless more than the rest is under way at a time
_UNITS: Final = {"lines": "tuple", "clicks": "click"}  # of the figures, by what a round is given
# Kafka's default: all workers of a round come into the first generation of a group, and no task moves while they start.
_BROKER: Final = {"group.initial.rebalance.delay.ms": "3000"}
PARTITIONS: Final = 2  # of each topic of the peers, of the source and of the sink


@dataclass(frozen=True, slots=True)
class Setting:
    """A round; its name is in the names of all of its topics, `directory` is for its files."""

    topics: Topics
    name: str
    directory: Path
    count: int  # lines or clicks
    pending: int  # open trees of a task of a spout, where that is not the contestant's own
    ack_partitions: int

    def source(self, kind: str, records: Callable[[int], Iterable[bytes]]) -> str:
        """The topic with the round's records, spread over its partitions; it is filled once for each number."""
        name = f"{kind}.{self.count}"
        self.topics.create({name: PARTITIONS})
        if not self.topics.end(name):
            numbered = enumerate(records(self.count))
            self.topics.write(name, (Record(record, number % PARTITIONS) for number, record in numbered))
        return name

    def sink(self) -> str:
        """Makes the topic of the round's results."""
        sink = f"{self.name}.sink"
        self.topics.create({sink: PARTITIONS})
        return sink


@dataclass(frozen=True, slots=True)
class Counted:
    """The results of a round, and p50 and p99 of the steady part's latencies."""

    counts: Counter[Any]
    latencies: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Run:
    """A contestant that runs: `total` is what it has to process, in the unit of `done`."""

    total: int
    pids: Sequence[int]  # the processes that it was started as; they may have started others
    done: Callable[[], int]
    check: Callable[[], None]  # raises if it has ended before its time
    counted: Callable[[], Counted]  # called when its processes have ended


class Contestant(ABC):
    """A program that does the work."""

    most: int | None = None  # of the count; None for any number
    first = 0.1  # share of a round with which its steady part begins
    window = 0  # lines that may be under way at a time, if that is a large part of a round
    on_kafka = True  # whether it uses the broker, whose CPU time is a part of its own then

    def __init__(self, name: str, count: int) -> None:
        self.name = name  # as in `--only`
        self.count = count  # of a round, which takes some 12 s on two cores

    def versions(self) -> dict[str, str]:
        """Of what is not ours. Raises `BenchmarkError` if it is missing."""
        return {}

    @abstractmethod
    def run(self, setting: Setting) -> AbstractContextManager[Run]:
        """Starts it, and stops it at the end."""

    @abstractmethod
    def expected(self, count: int) -> Counter[Any]:
        """The results of a plain loop over a number of lines or clicks."""

    @abstractmethod
    def units(self, count: int) -> int:
        """How many tuples, or clicks, the figures of a round are for."""

    def part(self, count: int) -> tuple[float, float]:
        """Shares of a round between which it is steady; of one that is too short, the usual ones."""
        last = 1 - self.window / count
        return self.first, min(LAST, last) if last > 2 * self.first else LAST


class KafkaPeer(Contestant):
    """A program that reads and writes Kafka topics, in processes that share the work."""

    work: ClassVar[str]
    """The option of the program that chooses its work."""

    def __init__(
        self, name: str, framework: str, count: int, processes: int = 1, *, options: Sequence[str] = ()
    ) -> None:
        super().__init__(name, count)
        self._framework = framework
        self._processes, self._options = processes, options

    def versions(self) -> dict[str, str]:
        return FRAMEWORKS[self._framework].versions()

    @abstractmethod
    def filled(self, setting: Setting) -> str:
        """The name of the source."""

    @abstractmethod
    def read(self, topics: Topics, sink: str) -> Counter[Any]:
        """The results in a sink."""

    @contextlib.contextmanager
    def run(self, setting: Setting) -> Iterator[Run]:
        topics, source, sink = setting.topics, self.filled(setting), setting.sink()
        programs: list[Program] = []

        def check() -> None:
            for program in programs:
                program.check()

        with contextlib.ExitStack() as stack:
            for number in range(self._processes):
                own = setting.directory / str(number)
                own.mkdir()
                arguments = [topics.servers, source, sink, setting.name, self.work, str(own), *self._options]
                command = peer_program(self._framework, *arguments)
                programs.append(stack.enter_context(running_program(self._framework, command)))
            pids = [program.process.pid for program in programs]
            done = partial(topics.end, sink, PARTITIONS)
            total = self.expected(setting.count).total()
            yield Run(total, pids, done, check, lambda: Counted(self.read(topics, sink)))


@dataclass(frozen=True, slots=True)
class Round:
    """A round that was measured: `steady` is a part of its samples, `share` of the round; `bytes` of all its topics."""

    units: int
    steady: Sample
    share: float
    counted: Counted
    bytes: int

    def figures(self, unit: str) -> dict[str, float]:
        units, cpu = self.share * self.units, self.steady.figures
        return {
            f"{unit}s_per_s": units / self.steady.at,
            f"cpu_us_per_{unit}": cpu["contestant"] / units * 1e6,
            f"cpu_us_per_{unit}_with_broker": sum(cpu.values()) / units * 1e6,
            f"kafka_bytes_per_{unit}": self.bytes / self.units,
            **self.counted.latencies,
        }


def run_round(contestant: Contestant, setting: Setting, logs: Path, exact: bool) -> Round:
    """One round, in a directory and with topics of its own; `logs` is the broker's data directory."""
    name = f"round-{contestant.name}-{uuid.uuid4().hex[:8]}"
    directory = Path(tempfile.mkdtemp(prefix=f"{name}-"))
    setting = replace(setting, name=name, directory=directory)
    try:
        with contestant.run(setting) as run:
            pids = {"contestant": run.pids, **({"broker": [setting.topics.pid]} if contestant.on_kafka else {})}
            samples = watch(run.done, pids, run.check, run.total)
        counted = run.counted()
        check(contestant, setting.count, counted.counts, exact)
        size = log_bytes(logs, name)
    finally:
        setting.topics.delete(name)
        # A process that was killed may still write while this is removed.
        shutil.rmtree(directory, ignore_errors=True)
    first, last = contestant.part(setting.count)
    part = steady(samples, first * run.total, last * run.total)
    return Round(contestant.units(setting.count), part, last - first, counted, size)


def log_bytes(logs: Path, name: str) -> int:
    """Bytes of the logs of all topics with a round's name in theirs."""
    # The broker still deletes the topics of the round before, while their directories are walked.
    return sum(
        Path(directory, file).stat().st_size
        for directory, _, files in os.walk(logs)
        if name in Path(directory).name and not directory.endswith("-delete")
        for file in files
        if file.endswith(".log")
    )


def check(contestant: Contestant, count: int, counts: Counter[Any], exact: bool) -> None:
    """Compares with a plain loop; raises if a result is missing, or, with `exact`, there are too many."""
    expected = contestant.expected(count)
    lost, repeated = expected - counts, counts - expected
    if lost or (exact and repeated):
        raise BenchmarkError(
            f"{contestant.name} has wrong results of {count:,}: {lost.total():,} of {expected.total():,} are missing, "
            f"{repeated.total():,} are too many, for instance {[*(lost or repeated).items()][:3]}"
        )


def row(contestant: Contestant, count: int, counted: str, rounds: Sequence[Round]) -> dict[str, Any]:
    """A row of the result; `counted` is the plural of what a round is given, lines or clicks."""
    figures = harness.spreads([each.figures(_UNITS[counted]) for each in rounds])
    return {"contestant": contestant.name, counted: count, **figures}


def read_counts(topics: Topics, sink: str, add: Callable[[Counter[Any], Message], None]) -> Counter[Any]:
    """The results in a sink: `add` is called with each record."""
    counts: Counter[Any] = Counter()
    topics.read(sink, partial(add, counts), PARTITIONS)
    return counts


def compare(
    name: str,
    description: str | None,
    contestants: Sequence[Contestant],
    counted: str,
    quick: int,
    *,
    exact: bool,
    pending: int = 0,
) -> None:
    """The command line of a comparison, whose rounds are given `quick` lines or clicks in a quick run."""
    by_name = {each.name: each for each in contestants}
    bench = Benchmark(name, description, quick=f"one round of {quick:,} {counted}")
    names = [*by_name]
    bench.option("--only", names, nargs="+", type=str, choices=names, metavar="NAME", help="contestants of the run")
    bench.option(f"--{counted}", 0, quick=quick, help="of a round, or 0 for what takes 12 s on two cores")
    bench.option("--cores", [0, 1], nargs="+", type=int, help="that everything runs on")
    bench.option("--ack-partitions", DEFAULT_ACK_PARTITIONS, help="of ours")
    if pending:
        bench.option("--pending", pending, help="open trees of a task of a spout that has the lines")
    given = bench.start()
    chosen = [by_name[each] for each in given.only]
    for each in chosen:
        each.versions()  # A missing peer ends the benchmark now.
    # All processes that it starts inherit it: the broker, and those of each contestant.
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, given.cores)
    if os.sched_getaffinity(0) != set(given.cores):
        raise BenchmarkError(f"this machine has not all of the cores {given.cores}: choose others with --cores")
    with (
        tempfile.TemporaryDirectory(prefix=f"{name}-", ignore_cleanup_errors=True) as directory,
        broker(_BROKER, data_dir=Path(directory)) as topics,
    ):
        logs, runs, counts = Path(directory), {}, dict[str, int]()
        for each in chosen:
            count = getattr(given, counted) or each.count
            counts[each.name] = count = min(count, each.most or count)
            setting = Setting(topics, "", logs, count, given.pending if pending else 0, given.ack_partitions)
            runs[each.name] = partial(run_round, each, setting, logs, exact)
        warm = 0 if given.quick else harness.warm_rounds(len(runs))
        measured = harness.in_turn(runs, bench.rounds, warm=warm, shown=lambda each: str(each.figures(_UNITS[counted])))
    rows = [row(by_name[each], counts[each], counted, of) for each, of in measured.items()]
    versions = {of: version for each in chosen for of, version in each.versions().items()}
    bench.publish(rows, versions, partitions=PARTITIONS)

"""The contestants of the word count: ours, Quix Streams and Bytewax over Kafka, Storm with bolts in Java or Python."""

import contextlib
import itertools
import json
import subprocess
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Message

from acker_cli.demo import text
from acker_cli.demo.stores import counted_words
from acker_cli.demo.word_count import REFERENCE as DEMO
from acker_cli.demo.word_count import Parameters
from benchmarks.harness import BenchmarkError
from benchmarks.processes import Program, running_program, running_topology
from benchmarks.setup import FRAMEWORKS, PEERS, WORD_COUNT, peer_program, require_storm, storm_program
from benchmarks.topics import Topics
from benchmarks.topologies import LINES, TASKS, Plan, lines, plain_count, read_counts
from benchmarks.topologies import WORD_COUNT as OURS
from spout_sdk import LatencyHistogram

LAST: Final = 0.9  # share of a round with which its steady part ends, unless more than the rest is under way at a time
PARTITIONS: Final = 2  # of each topic of the peers, and of the source
KAFKA_PENDING: Final = 10_000  # open trees of a task of a `KafkaSpout`: the default of a topology
_STORM_STOP_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Setting:
    """A round; its name is in the names of all of its topics, `directory` is for its files."""

    topics: Topics
    name: str
    directory: Path
    lines: int
    pending: int  # open trees of a task of a spout, where that is not the contestant's own
    ack_partitions: int

    def source(self) -> str:
        """The topic with the lines, a record each, spread over its partitions; it is filled once for each number."""
        name = f"lines.{self.lines}"
        self.topics.create({name: PARTITIONS})
        if not self.topics.end(name):
            numbered = enumerate(itertools.islice(itertools.cycle(lines()), self.lines))
            self.topics.write(name, ((line.encode(), number % PARTITIONS, None) for number, line in numbered))
        return name


@dataclass(frozen=True, slots=True)
class Counted:
    """The counts of a round, the trees that failed and came again, and p50 and p99 of the steady part's latencies."""

    counts: Counter[str]
    failed: int = 0
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
    """A program that counts words."""

    most: int | None = None  # lines that there are; None for any number
    first = 0.1  # share of a round with which its steady part begins
    window = 0  # lines that may be under way at a time, if that is a large part of a round
    on_kafka = True  # whether it uses the broker, whose CPU time is a part of its own then

    def __init__(self, name: str, lines: int) -> None:
        self.name = name  # as in `--only`
        self.lines = lines  # of a round, which take some 12 s on two cores

    def versions(self) -> dict[str, str]:
        """Of what is not ours. Raises `BenchmarkError` if it is missing."""
        return {}

    @abstractmethod
    def run(self, setting: Setting) -> AbstractContextManager[Run]:
        """Starts it, and stops it at the end."""

    def part(self, lines: int) -> tuple[float, float]:
        """Shares of a round between which it is steady; of one that is too short, the usual ones."""
        last = 1 - self.window / lines
        return self.first, min(LAST, last) if last > 2 * self.first else LAST

    def expected(self, count: int) -> Counter[str]:
        """The plain count of so many lines."""
        return plain_count(count)

    def kind(self, topic: str) -> str:
        """The purpose of one of its topics; of ours `tuples.split`, `acks` and so on."""
        return topic.partition(".")[2]


class Ours(Contestant):
    """The word count of `benchmarks.topologies`: its lines from a topic, its bolts by record batches, or not.

    With a sink its results are records of a topic, as those of the peers, and then its counts may be in a state.
    """

    def __init__(
        self,
        name: str,
        lines: int,
        *,
        topic: bool = False,
        columns: bool = False,
        sink: bool = False,
        state: bool = False,
        chained: bool = False,
    ) -> None:
        super().__init__(name, lines)
        self._chained = chained
        self._topic = topic
        self._columns = columns
        self._sink = sink
        self._state = state
        self.window = KAFKA_PENDING * TASKS if topic else 0

    def run(self, setting: Setting) -> AbstractContextManager[Run]:
        sink = _sink(setting) if self._sink else ""
        plan = Plan(
            setting.name,
            max_spout_pending=KAFKA_PENDING if self._topic else setting.pending,
            ack_partitions=setting.ack_partitions,
            topic=setting.source() if self._topic else "",
            columns=self._columns,
            directory=str(setting.directory),
            sink=sink,
            state=self._state,
            chained=self._chained,
            lines=setting.lines,
        )
        counts = partial(_sink_counts, setting.topics, sink) if sink else partial(read_counts, setting.directory)
        return _our_run(setting, OURS, plan.environment, self.part(setting.lines), counts)


class Demo(Contestant):
    """The topology of `acker demo`, whose counts and acked lines are in SQLite."""

    most = len(text.lines())

    def run(self, setting: Setting) -> AbstractContextManager[Run]:
        variables = Parameters(setting.name, setting.directory, lines=setting.lines).to_environment()
        counts = partial(counted_words, setting.directory)
        return _our_run(setting, DEMO, variables, self.part(setting.lines), counts)

    def expected(self, count: int) -> Counter[str]:
        return text.plain_count(count)


def _sink(setting: Setting) -> str:
    """Makes the topic of a round's results."""
    sink = f"{setting.name}.sink"
    setting.topics.create({sink: PARTITIONS})
    return sink


def _sink_counts(topics: Topics, sink: str) -> Counter[str]:
    """The counts in a topic, where a word has a record for each time that it came: the largest count is the last."""
    counts: Counter[str] = Counter()

    def take(message: Message) -> None:
        word, count = (message.key() or b"").decode(), int(message.value() or b"0")
        counts[word] = max(counts[word], count)

    topics.read(sink, take, PARTITIONS)
    return counts


@contextlib.contextmanager
def _our_run(
    setting: Setting,
    reference: str,
    variables: Mapping[str, str],
    part: tuple[float, float],
    counts: Callable[[], Counter[str]],
) -> Iterator[Run]:
    """Progress and latencies are those of the stats, twice a second."""
    reports = [(0, LatencyHistogram())]
    failed: dict[str, int] = {}
    with running_topology(setting.topics, reference, variables) as running:

        def done() -> int:
            stats = running.runner.stats()[LINES]
            if stats.acked > reports[-1][0]:
                reports.append((stats.acked, stats.complete_latency))
            return stats.acked

        def check() -> None:
            running.check()
            failed.update(running.failures().get(LINES, {}))

        def counted() -> Counted:
            first, last = (share * setting.lines for share in part)
            within = [latency for acked, latency in reports if first <= acked <= last]
            # Of the acks that were reported in the steady part; of all, where that is between two reports.
            latency = within[-1].since(within[0]) if len(within) > 1 else reports[-1][1]
            latencies = {f"p{percent}_ms": latency.quantile(percent / 100) * 1e3 for percent in (50, 99)}
            return Counted(counts(), sum(failed.values()), latencies)

        # The lines begin once all processes are ready.
        (setting.directory / "go").touch()
        pids = [pid for pids in running.pids().values() for pid in pids]
        yield Run(setting.lines, pids, done, check, counted)


class KafkaPeer(Contestant):
    """A framework that reads and writes Kafka topics, in processes that share the work."""

    def __init__(self, name: str, framework: str, lines: int, processes: int = 1) -> None:
        super().__init__(name, lines)
        self._framework = framework
        self._processes = processes

    def versions(self) -> dict[str, str]:
        return FRAMEWORKS[self._framework].versions()

    @contextlib.contextmanager
    def run(self, setting: Setting) -> Iterator[Run]:
        topics, source, sink = setting.topics, setting.source(), _sink(setting)
        programs: list[Program] = []

        def check() -> None:
            for program in programs:
                program.check()

        def counted() -> Counted:
            return Counted(_sink_counts(topics, sink))

        with contextlib.ExitStack() as stack:
            for number in range(self._processes):
                own = setting.directory / str(number)
                own.mkdir()
                arguments = [topics.servers, source, sink, setting.name, "--words", str(own)]
                command = peer_program(self._framework, *arguments)
                programs.append(stack.enter_context(running_program(self._framework, command)))
            pids = [program.process.pid for program in programs]
            total = plain_count(setting.lines).total()
            yield Run(total, pids, lambda: topics.end(sink, PARTITIONS), check, counted)

    def kind(self, topic: str) -> str:
        return next((kind for kind in ("repartition", "changelog") if topic.startswith(kind)), "sink")


class Storm(Contestant):
    """Storm in a local cluster of one worker; bolts by the multilang protocol in a framework's environment, or Java."""

    first = 0.5  # each round is a new JVM, which compiles while it runs
    on_kafka = False

    def __init__(self, name: str, lines: int, framework: str | None = None) -> None:
        super().__init__(name, lines)
        self._framework = framework
        self._versions: dict[str, str] = {}

    def versions(self) -> dict[str, str]:
        """Of pystorm, and after a round of Storm and Java."""
        require_storm()
        return self._versions | ({} if self._framework is None else FRAMEWORKS[self._framework].versions())

    @contextlib.contextmanager
    def run(self, setting: Setting) -> Iterator[Run]:
        directory = setting.directory
        file = directory / "text"
        file.write_text("\n".join(lines()) + "\n")
        arguments = [file, setting.lines, TASKS, setting.pending, directory, self.first]
        if self._framework is not None:
            arguments.append(FRAMEWORKS[self._framework].python())
            arguments += [PEERS / f"{self._framework}_{bolt}.py" for bolt in ("split", "count")]
        # Its ZooKeeper and its supervisor keep files; they go with those of the round.
        options = [f"-Djava.io.tmpdir={directory}"]
        command = storm_program(WORD_COUNT, 1024, *map(str, arguments), options=options)
        progress: dict[str, Any] = {"acked": 0, "failed": 0}

        def done() -> int:
            # Ten times a second it prints its progress, at its end its latencies and versions.
            for line in program.output.read_text().splitlines(keepends=True):
                if line.endswith("\n"):
                    progress.update(json.loads(line))
            return int(progress["acked"])

        def check() -> None:
            if done() < setting.lines:
                program.check()

        def counted() -> Counted:
            if "p50_ms" not in progress:
                raise BenchmarkError(f"Storm did not print its latencies within {_STORM_STOP_SECONDS:g} s")
            latencies = {name: progress[name] for name in ("p50_ms", "p99_ms")}
            return Counted(read_counts(directory), progress["failed"], latencies)

        with running_program("Storm", command, directory=directory) as program:
            yield Run(setting.lines, [program.process.pid], done, check, counted)
            # It ends once its counts are written.
            with contextlib.suppress(subprocess.TimeoutExpired):
                program.process.wait(_STORM_STOP_SECONDS)
            done()
        self._versions = dict(progress.get("versions", {}))

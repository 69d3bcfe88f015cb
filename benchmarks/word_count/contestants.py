"""The contestants: what they have in common, and ours; `peers` has the others."""

import contextlib
import itertools
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from acker_cli.demo import text
from acker_cli.demo.stores import counted_words
from acker_cli.demo.word_count import REFERENCE as DEMO
from acker_cli.demo.word_count import Parameters
from benchmarks.processes import RunningTopology, environment, running_topology
from benchmarks.topics import Topics
from benchmarks.word_count.text import lines, plain_count
from benchmarks.word_count.topology import LINES, REFERENCE, Words, read_counts
from spout_sdk import LatencyHistogram, load_topology

FIRST: Final = 0.1
"""Share of a round with which its steady part begins, unless the contestant has another."""
LAST: Final = 0.9
"""Share with which it ends, unless more than the rest is under way at a time."""
PARTITIONS: Final = 2
"""Of each topic of the peers, and of the source."""
TASKS: Final = 2
"""Of each component of Storm, of pystorm and of ours."""
KAFKA_PENDING: Final = 10_000
"""Open trees of a task of a `KafkaSpout`: the default of a topology."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A round.

    Attributes:
        topics: of the broker.
        name: of the round, which is in the names of all of its topics.
        directory: for its files.
        lines: how many are counted.
        pending: open trees of a task of a spout, where that is not the contestant's own.
        processes: component of ours → how many.
        ackers: acker workers of ours.
        ack_partitions: of ours.
    """

    topics: Topics
    name: str
    directory: Path
    lines: int
    pending: int
    processes: Mapping[str, int]
    ackers: int
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
    """The counts of a round.

    Attributes:
        counts: word → how often.
        failed: trees that failed and came again.
        p50_ms, p99_ms: complete latency in the steady part; None where there is none.
    """

    counts: Counter[str]
    failed: int = 0
    p50_ms: float | None = None
    p99_ms: float | None = None


class Run(ABC):
    """A contestant that runs; `total` is what it has to process, in the unit of `done`."""

    total: int

    @abstractmethod
    def done(self) -> int:
        """What it has processed."""

    @abstractmethod
    def pids(self) -> Sequence[int]:
        """The processes that it was started as; they may have started others."""

    @abstractmethod
    def check(self) -> None:
        """Raises if it has ended before its time."""

    @abstractmethod
    def counted(self) -> Counted:
        """What it counted; its processes have ended."""


class Contestant(ABC):
    """A program that counts words.

    Attributes:
        name: as in `--only`.
        lines: of the first, short round, from which it is worked out how many a round takes.
        most: lines that there are; None for any number.
        first: share of a round with which its steady part begins.
        on_kafka: whether it uses the broker, whose CPU time is a part of its own then.
    """

    on_kafka = True

    def __init__(self, name: str, lines: int, most: int | None = None, first: float = FIRST) -> None:
        self.name = name
        self.lines = lines
        self.most = most
        self.first = first

    def versions(self) -> dict[str, str]:
        """Of what is not ours. Raises `NotSetUpError` if it is missing."""
        return {}

    @abstractmethod
    def run(self, setting: Setting) -> AbstractContextManager[Run]:
        """Starts it, and stops it at the end."""

    def window(self) -> int:
        """Lines that may be under way at a time, if that is a large part of a round."""
        return 0

    def part(self, lines: int) -> tuple[float, float]:
        """Shares of a round between which it is steady; of one that is too short, the usual ones."""
        last = 1 - self.window() / lines
        return self.first, min(LAST, last) if last > 2 * self.first else LAST

    def expected(self, count: int) -> Counter[str]:
        """The plain count of so many lines."""
        return plain_count(count)

    def kind(self, topic: str) -> str:
        """The purpose of one of its topics; of ours `tuples.split`, `acks` and so on."""
        return topic.partition(".")[2]


class OurRun(Run):
    """A topology of the SDK that runs; its progress is that of the stats, twice a second."""

    def __init__(self, running: RunningTopology, setting: Setting, part: tuple[float, float], *, demo: bool) -> None:
        self.total = setting.lines
        self._running = running
        self._directory = setting.directory
        self._part = part
        self._demo = demo
        self._reports: list[tuple[int, LatencyHistogram]] = [(0, LatencyHistogram())]
        self._failures: Mapping[str, Mapping[str, int]] = {}

    def done(self) -> int:
        stats = self._running.runner.stats()[LINES]
        if stats.acked > self._reports[-1][0]:
            self._reports.append((stats.acked, stats.complete_latency))
        return stats.acked

    def pids(self) -> Sequence[int]:
        return [pid for pids in self._running.pids().values() for pid in pids]

    def check(self) -> None:
        self._running.check()
        self._failures = self._running.failures()

    def counted(self) -> Counted:
        counts = counted_words(self._directory) if self._demo else read_counts(self._directory)
        latency = self._latency()
        failed = sum(self._failures.get(LINES, {}).values())
        return Counted(counts, failed, latency.quantile(0.5) * 1e3, latency.quantile(0.99) * 1e3)

    def _latency(self) -> LatencyHistogram:
        """Of the acks that were reported in the steady part; of all, where that is between two reports."""
        first, last = (share * self.total for share in self._part)
        within = [each for acked, each in self._reports if first <= acked <= last]
        return within[-1].since(within[0]) if len(within) > 1 else self._reports[-1][1]


class Ours(Contestant):
    """A topology of `benchmarks.word_count.topology`.

    Args:
        name: of the contestant.
        lines: of its first round.
        topic: whether its lines come from a topic, by a `KafkaSpout`.
        columns: whether its bolts take record batches.
    """

    def __init__(self, name: str, lines: int, *, topic: bool = False, columns: bool = False) -> None:
        super().__init__(name, lines)
        self._topic = topic
        self._columns = columns

    @contextlib.contextmanager
    def run(self, setting: Setting) -> Iterator[Run]:
        variables = Words(
            setting.name,
            str(setting.directory),
            setting.lines,
            topic=setting.source() if self._topic else "",
            tasks=TASKS,
            pending=KAFKA_PENDING if self._topic else setting.pending,
            ack_partitions=setting.ack_partitions,
            columns=self._columns,
        ).environment
        with _running(setting, REFERENCE, variables) as running:
            # The lines begin once all processes are ready.
            (setting.directory / "go").touch()
            yield OurRun(running, setting, self.part(setting.lines), demo=False)

    def window(self) -> int:
        return KAFKA_PENDING * TASKS if self._topic else 0


class Demo(Contestant):
    """The topology of `acker demo`, whose counts and acked lines are in SQLite."""

    def __init__(self, name: str, lines: int) -> None:
        super().__init__(name, lines, len(text.lines()))

    @contextlib.contextmanager
    def run(self, setting: Setting) -> Iterator[Run]:
        variables = Parameters(setting.name, setting.directory, lines=setting.lines).to_environment()
        with _running(setting, DEMO, variables) as running:
            yield OurRun(running, setting, self.part(setting.lines), demo=True)

    def expected(self, count: int) -> Counter[str]:
        return text.plain_count(count)


@contextlib.contextmanager
def _running(setting: Setting, reference: str, variables: Mapping[str, str]) -> Iterator[RunningTopology]:
    with environment(**variables):
        setting.topics.create_for(load_topology(reference).manifest)
    servers = setting.topics.servers
    with running_topology(servers, reference, variables, setting.processes, setting.ackers) as running:
        yield running

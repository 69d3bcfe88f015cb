"""Our word count, in four ways: lines from the spout or from a topic, by tuples or by columns; and the demo's own."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from acker_cli.demo import text
from acker_cli.demo.stores import counted_words
from acker_cli.demo.word_count import REFERENCE as DEMO
from acker_cli.demo.word_count import Parameters
from benchmarks.processes import environment
from benchmarks.running import Running, make_topics_of, started
from benchmarks.word_count.contestants import Contestant, Counted, CountingRun, Setting
from benchmarks.word_count.topology import LINES, REFERENCE, Words, read_counts
from spout_sdk import LatencyHistogram, load_topology

KAFKA_PENDING: Final = 10_000
"""Open trees of a task of a `KafkaSpout`: the default of a topology."""


class OursRun(CountingRun):
    """A topology of the SDK that runs; its progress is that of the stats, twice a second.

    Args:
        running: its processes.
        setting: of the round.
        part: shares of the round between which it is steady.
        demo: whether its counts are in the demo's files.
    """

    def __init__(self, running: Running, setting: Setting, part: tuple[float, float], *, demo: bool = False) -> None:
        self._running = running
        self._setting = setting
        self._part = part
        self._demo = demo
        self._reports: list[tuple[int, LatencyHistogram]] = [(0, LatencyHistogram())]
        self._failures: Mapping[str, Mapping[str, int]] = {}

    @property
    def total(self) -> int:
        return self._setting.lines

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
        files = self._setting.directory
        counts = counted_words(files) if self._demo else read_counts(files.glob("count-*"))
        found = self._latencies()
        failed = sum(self._failures.get(LINES, {}).values())
        return Counted(counts, failed, found.quantile(0.5) * 1e3, found.quantile(0.99) * 1e3)

    def _latencies(self) -> LatencyHistogram:
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
    def run(self, setting: Setting) -> Iterator[CountingRun]:
        plan = self.plan(setting)
        with running_words(plan, setting, REFERENCE) as running:
            yield OursRun(running, setting, self.part(setting))

    def window(self, setting: Setting) -> int:
        return KAFKA_PENDING * setting.tasks if self._topic else 0

    def plan(self, setting: Setting) -> Words:
        """The topology of a round."""
        return Words(
            setting.name,
            str(setting.directory),
            setting.lines,
            topic=setting.topics.source(setting.lines) if self._topic else "",
            tasks=setting.tasks,
            pending=KAFKA_PENDING if self._topic else setting.pending,
            ack_partitions=setting.ack_partitions,
            columns=tuple(setting.columns) if self._columns else (),
        )

    def kind(self, topic: str) -> str:
        return kind_of(topic)


@contextlib.contextmanager
def running_words(
    plan: Words,
    setting: Setting,
    reference: str,
    before: Callable[[], None] = lambda: None,
    ackers: int | None = None,
) -> Iterator[Running]:
    """Runs a topology of `benchmarks.word_count.topology`; its lines begin once all processes are ready.

    Args:
        plan: the topology.
        setting: of the round.
        reference: to what makes it of the plan.
        before: called when its topics are there.
        ackers: acker workers; those of the setting unless given.
    """
    servers, number = setting.topics.servers, setting.ackers if ackers is None else ackers
    with environment(**plan.environment):
        make_topics_of(setting.topics.topics, load_topology(reference).manifest)
    before()
    with started(servers, reference, plan.environment, setting.processes, number) as running:
        (setting.directory / "go").touch()
        yield running


class Demo(Contestant):
    """The topology of `acker demo`: counts and acked lines in SQLite, 200 open trees, a time-out of 5 s."""

    def __init__(self, name: str, lines: int) -> None:
        super().__init__(name, lines, len(text.lines()))

    @contextlib.contextmanager
    def run(self, setting: Setting) -> Iterator[CountingRun]:
        variables = Parameters(setting.name, setting.directory, lines=setting.lines).to_environment()
        with environment(**variables):
            make_topics_of(setting.topics.topics, load_topology(DEMO).manifest)
        with started(setting.topics.servers, DEMO, variables, setting.processes, setting.ackers) as running:
            yield OursRun(running, setting, self.part(setting), demo=True)

    def expected(self, count: int) -> Counter[str]:
        return text.plain_count(count)

    def kind(self, topic: str) -> str:
        return kind_of(topic)


def kind_of(topic: str) -> str:
    """What a topic of a topology is for: `tuples.split`, `acks` and so on."""
    return topic.partition(".")[2]

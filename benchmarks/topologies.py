"""The word count; each process builds its own topology from the plan in its environment.

Lines (2 tasks) ──shuffle──▶ split (2 tasks) ──fields: word──▶ count (2 tasks). Its text is that of the demo, each line
as its words with a blank between them, without the lines that have none: so every contestant finds the same words with
the cheapest split that its language has. With a sink the counts are in a state, and count writes a record for each
word, its count so far, in the transaction that changes the state.
"""

import uuid
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import cycle, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import pyarrow.compute as pc

from acker_cli.demo import text
from benchmarks import harness
from spout_sdk import (
    BasicBolt,
    BasicCollector,
    BatchBolt,
    Failure,
    KafkaSpout,
    OutputCollector,
    Spout,
    SpoutCollector,
    TaskContext,
    Topology,
    TopologyBuilder,
    Tuple,
    declare,
)
from spout_sdk.api.topology import Factory
from spout_sdk.arrow import ArrowBolt, ArrowCollector
from spout_sdk.state import StateCollector, StatefulBolt
from tuple_tree.manifest import DEFAULT_ACK_PARTITIONS

WORD_COUNT: Final = "benchmarks.topologies:word_count"
LINES: Final = "lines"
TASKS: Final = 2  # of each component of the word count in Storm, in pystorm and in ours
_LINE: Final = declare({"line": str})
_WORD: Final = declare({"word": str})


@dataclass(frozen=True, slots=True)
class Plan(harness.Plan):
    """The settings of a run: it reads a topic, or, without one, emits a number of lines."""

    name: str
    max_spout_pending: int = 20_000
    ack_partitions: int = DEFAULT_ACK_PARTITIONS
    topic: str = ""
    columns: bool = False
    directory: str = ""
    """Of the counts of words without a sink."""
    steps: bool = False
    """Whether split and count are functions; they need a topic and a sink."""
    sink: str = ""
    """The topic with a record for each word that was counted; none: the counts are written at the end."""
    lines: int = 0


def word_count() -> Topology:
    """The word count of this process's plan."""
    plan = Plan.from_environment()
    builder = TopologyBuilder(
        plan.name, ack_partitions=plan.ack_partitions, max_spout_pending=plan.max_spout_pending, message_timeout=30.0
    )
    if plan.steps:
        read = builder.spout(LINES, KafkaSpout(plan.topic, value=str), tasks=TASKS)
        counts = read.step(split).key_by("value").state(count, initial=0, tasks=TASKS)
        counts.to(plan.sink, key=itemgetter(0))
        return builder.build()
    builder.set_spout(LINES, KafkaSpout(plan.topic, streams=(_LINE,)) if plan.topic else Lines, tasks=TASKS)
    builder.set_bolt("split", ColumnSplit if plan.columns else Split, tasks=TASKS).shuffle_grouping(LINES)
    counter: Factory = StateCount if plan.sink else (Count, ColumnCount)[plan.columns]
    builder.set_bolt("count", counter, tasks=TASKS).fields_grouping("split", "word")
    return builder.build()


@cache
def lines() -> tuple[str, ...]:
    """The lines of the text."""
    return tuple(" ".join(words) for words in map(text.words, text.lines()) if words)


@cache
def plain_count(count: int) -> Counter[str]:
    """The words of this number of lines, counted at once; after the last line the text begins again."""
    return Counter(word for line in islice(cycle(lines()), count) for word in line.split())


class Lines(Spout):
    """The lines that fall to its task, from the beginning of the text again after its end; what fails comes again."""

    streams = (_LINE,)

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        plan = Plan.from_environment()
        self.collector = collector
        self.text = lines()
        self.new = iter(range(context.task, plan.lines, context.tasks))
        self.again: deque[int] = deque()
        self.go = Path(plan.directory, "go")
        self.gone = False

    def next_tuple(self) -> None:
        # A task that moved while processes start would emit its first lines twice.
        if not self.gone:
            self.gone = self.go.exists()
            return
        number = self.again.popleft() if self.again else next(self.new, None)
        if number is not None:
            self.collector.emit((self.text[number % len(self.text)],), message_id=number)

    def fail(self, message_id: Any, failure: Failure) -> None:
        self.again.append(message_id)


def split(line: str) -> Iterator[str]:
    yield from line.split()


def count(counted: int, _word: str) -> int:
    return counted + 1


class Split(BasicBolt):
    streams = (_WORD,)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        for word in tuple_.values[0].split():
            collector.emit((word,))


class ColumnSplit(ArrowBolt):
    streams = (_WORD,)

    def execute_batch(self, batch: Any, collector: ArrowCollector) -> None:
        words = pc.utf8_split_whitespace(batch.column("line"))
        collector.emit({"word": pc.list_flatten(words)}, anchors=pc.list_parent_indices(words))
        collector.ack()


class Count(BatchBolt):
    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self.collector = collector
        self.counts: Counter[str] = Counter()

    def execute_batch(self, tuples: Sequence[Tuple]) -> None:
        self.counts.update([tuple_.values[0] for tuple_ in tuples])
        self.collector.ack_all(tuples)

    def cleanup(self) -> None:
        write_counts(self.counts)


class ColumnCount(ArrowBolt):
    def prepare(self, context: TaskContext) -> None:
        self.counts: Counter[str] = Counter()

    def execute_batch(self, batch: Any, collector: ArrowCollector) -> None:
        counted = pc.value_counts(batch.column("word"))
        words, counts = (counted.field(name).to_pylist() for name in ("values", "counts"))
        self.counts.update(dict(zip(words, counts, strict=True)))
        collector.ack()

    def cleanup(self) -> None:
        write_counts(self.counts)


class StateCount(StatefulBolt):
    """The counts in a state: durable, and each word counted once."""

    state = int

    def prepare(self, context: TaskContext) -> None:
        self.topic = Plan.from_environment().sink

    def update(self, count: int, tuple_: Tuple) -> int:
        return count + 1

    def emit(self, key: str, count: int, tuple_: Tuple, collector: StateCollector) -> None:
        collector.write(self.topic, b"%d" % count, key=key.encode())


def write_counts(counts: Mapping[str, int]) -> None:
    """Writes the counts of a task into a file of its own."""
    rows = "".join(f"{word} {count}\n" for word, count in counts.items())
    Path(Plan.from_environment().directory, f"count-{uuid.uuid4().hex}").write_text(rows)


def counts_of_tasks(directory: Path) -> Counter[str]:
    """The counts of all tasks together, ours or Storm's."""
    total: Counter[str] = Counter()
    for file in directory.glob("count-*"):
        for row in file.read_text().splitlines():
            word, count = row.split(" ")
            total[word] += int(count)
    return total

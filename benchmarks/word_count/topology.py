"""The text of the word count, its plain count, and our topology, with its plan in the environment.

The text is that of the demo, each line as its words with a blank between them, without the lines that have none: so
every contestant finds the same words with the cheapest split that its language has.

lines (2 tasks) ──shuffle──▶ split (2 tasks) ──fields: word──▶ count (2 tasks)
"""

import json
import os
import uuid
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Final, Self

import pyarrow.compute as pc

from acker_cli.demo import text
from spout_sdk import (
    ArrowBolt,
    ArrowCollector,
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

REFERENCE: Final = "benchmarks.word_count.topology:topology"
LINES: Final = "lines"
SPLIT: Final = "split"
COUNT: Final = "count"
TASKS: Final = 2
"""Of each component of Storm, of pystorm and of ours."""
_PLAN: Final = "ACKER_BENCHMARK_WORDS"
_LINE: Final = declare({"line": str})
_WORD: Final = declare({"word": str})


@dataclass(frozen=True, slots=True)
class Words:
    """What to run: so many lines, or those of a topic; counts go to the directory."""

    name: str
    directory: str
    lines: int
    topic: str
    pending: int
    ack_partitions: int
    columns: bool

    @property
    def environment(self) -> dict[str, str]:
        return {_PLAN: json.dumps(asdict(self))}

    @classmethod
    def from_environment(cls) -> Self:
        return cls(**json.loads(os.environ[_PLAN]))


@cache
def lines() -> tuple[str, ...]:
    """The lines of the text."""
    return tuple(" ".join(words) for words in map(text.words, text.lines()) if words)


def plain_count(count: int) -> Counter[str]:
    """The words of so many lines, counted in one go; after the last line the text begins anew."""
    whole, rest = divmod(count, len(lines()))
    counted = Counter({word: whole * times for word, times in _words(len(lines())).items()} if whole else {})
    counted.update(_words(rest))
    return counted


def _words(most: int) -> Counter[str]:
    return Counter(word for line in islice(lines(), most) for word in line.split())


class Lines(Spout):
    """The lines that fall to its task, from the beginning of the text again after its end; what fails comes again."""

    streams = (_LINE,)

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        plan = Words.from_environment()
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

    def fail(self, message_id: Any, reason: Failure) -> None:
        self.again.append(message_id)


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
        write_counts(Path(Words.from_environment().directory), self.counts)


class ColumnCount(ArrowBolt):
    def prepare(self, context: TaskContext) -> None:
        self.counts: Counter[str] = Counter()

    def execute_batch(self, batch: Any, collector: ArrowCollector) -> None:
        counted = pc.value_counts(batch.column("word"))
        words, counts = (counted.field(name).to_pylist() for name in ("values", "counts"))
        self.counts.update(dict(zip(words, counts, strict=True)))
        collector.ack()

    def cleanup(self) -> None:
        write_counts(Path(Words.from_environment().directory), self.counts)


def write_counts(directory: Path, counts: Mapping[str, int]) -> None:
    """Writes the counts of a task into a file of its own."""
    rows = "".join(f"{word} {count}\n" for word, count in counts.items())
    (directory / f"count-{uuid.uuid4().hex}").write_text(rows)


def read_counts(directory: Path) -> Counter[str]:
    """The counts of all tasks together, ours or Storm's."""
    total: Counter[str] = Counter()
    for file in directory.glob("count-*"):
        for row in file.read_text().splitlines():
            word, count = row.split(" ")
            total[word] += int(count)
    return total


def topology() -> Topology:
    """The topology of this process's plan."""
    plan = Words.from_environment()
    builder = TopologyBuilder(
        plan.name,
        ack_partitions=plan.ack_partitions,
        max_spout_pending=plan.pending,
        message_timeout=30.0,
    )
    spout = KafkaSpout(plan.topic, streams=(_LINE,)) if plan.topic else Lines
    split = ColumnSplit if plan.columns else Split
    count = ColumnCount if plan.columns else Count
    builder.set_spout(LINES, spout, tasks=TASKS)
    builder.set_bolt(SPLIT, split, tasks=TASKS).shuffle_grouping(LINES)
    builder.set_bolt(COUNT, count, tasks=TASKS).fields_grouping(SPLIT, "word")
    return builder.build()

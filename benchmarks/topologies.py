"""The topologies of the benchmarks; each process builds its own from the plan in its environment.

`transform`: a source, bolts that turn payloads into upper case, and a sink. `word_count`: lines (2 tasks) ──shuffle──▶
split (2 tasks) ──fields: word──▶ count (2 tasks); split may be chained to the lines. Its text is that of the demo, each
line as its words with a blank between them, without the lines that have none: so every contestant finds the same words
with the cheapest split that its language has. With a sink, count ──fields: word──▶ sink (2 tasks) writes a record for
each word: its count so far. With a state, count writes that itself, in the transaction that changes the state.
"""

import json
import os
import time
import uuid
from array import array
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from acker_cli.demo import text
from benchmarks.topics import payloads
from spout_sdk import (
    ArrowBolt,
    ArrowCollector,
    BasicBolt,
    BasicCollector,
    BatchBolt,
    Failure,
    KafkaBolt,
    KafkaSpout,
    OutputCollector,
    Spout,
    SpoutCollector,
    StateArrowCollector,
    StateCollector,
    StatefulArrowBolt,
    StatefulBolt,
    TaskContext,
    Topology,
    TopologyBuilder,
    Tuple,
    declare,
)
from spout_sdk.api.topology import Factory
from tuple_tree.manifest import DEFAULT_ACK_PARTITIONS, Guarantee

TRANSFORM: Final = "benchmarks.topologies:transform"
WORD_COUNT: Final = "benchmarks.topologies:word_count"
STREAM: Final = declare({"payload": bytes})
LINES: Final = "lines"
SPLIT: Final = "split"
COUNT: Final = "count"
SINK: Final = "sink"
TASKS: Final = 2  # of each component of the word count in Storm, in pystorm and in ours
_LINE: Final = declare({"line": str})
_WORD: Final = declare({"word": str})
_COUNTED: Final = declare({"word": str, "count": int})
_PLAN: Final = "ACKER_BENCHMARK_PLAN"
_STAMP_BYTES: Final = 20


@dataclass(frozen=True, slots=True)
class Plan:
    """The settings of a run: it reads a topic, or, without one, emits payloads by a timetable or a number of lines."""

    name: str
    guarantee: Guarantee = "at_least_once"
    max_spout_pending: int = 20_000
    ack_partitions: int = DEFAULT_ACK_PARTITIONS
    topic: str = ""
    columns: bool = False
    directory: str = ""
    """Of the latencies of a timetable, or of the counts of words without a sink."""
    sink: str = ""
    """The topic with a record for each word that was counted; none: the counts are written at the end."""
    state: bool = False
    """Whether counts are in a state, in place of the memory of a bolt."""
    chained: bool = False
    """Whether lines are split in the tasks of their spout."""
    hops: int = 2
    rate: float = 0.0  # payloads a second, for so many seconds
    seconds: float = 0.0
    lines: int = 0

    @property
    def environment(self) -> dict[str, str]:
        return {_PLAN: json.dumps(asdict(self))}

    @classmethod
    def from_environment(cls) -> Self:
        return cls(**json.loads(os.environ[_PLAN]))

    def builder(self, message_timeout: float) -> TopologyBuilder:
        return TopologyBuilder(
            self.name,
            guarantee=self.guarantee,
            ack_partitions=self.ack_partitions,
            max_spout_pending=self.max_spout_pending,
            message_timeout=message_timeout,
        )


def transform() -> Topology:
    """The source, so many hops behind it, and the sink of this process's plan."""
    plan = Plan.from_environment()
    builder, source = plan.builder(60.0), "source"
    builder.set_spout(source, KafkaSpout(plan.topic, streams=(STREAM,)) if plan.topic else Paced)
    for number in range(plan.hops - 1):
        bolt = f"transform{number or ''}"
        builder.set_bolt(bolt, TransformColumns if plan.columns else Transform).shuffle_grouping(source)
        source = bolt
    builder.set_bolt("sink", Sink if plan.topic else TimedSink).shuffle_grouping(source)
    return builder.build()


def word_count() -> Topology:
    """The word count of this process's plan."""
    plan = Plan.from_environment()
    builder = plan.builder(30.0)
    builder.set_spout(LINES, KafkaSpout(plan.topic, streams=(_LINE,)) if plan.topic else Lines, tasks=TASKS)
    split = builder.set_bolt(SPLIT, ColumnSplit if plan.columns else Split, tasks=TASKS)
    (split.local_grouping if plan.chained else split.shuffle_grouping)(LINES)
    builder.set_bolt(COUNT, _count(plan), tasks=TASKS).fields_grouping(SPLIT, "word")
    if plan.sink and not plan.state:
        topic = plan.sink
        builder.set_bolt(SINK, lambda: KafkaBolt(topic, key="word", value=_text), tasks=TASKS).fields_grouping(
            COUNT, "word"
        )
    return builder.build()


def _count(plan: Plan) -> Factory:
    """The bolt that counts: in a state or in memory, with results for a sink or not, by columns or not."""
    if plan.state:
        return ColumnStateCount if plan.columns else StateCount
    if plan.sink:
        return ColumnSinkCount if plan.columns else SinkCount
    return ColumnCount if plan.columns else Count


def _text(tuple_: Tuple) -> str:
    """The value of a result, as the peers write it."""
    return str(tuple_.values[1])


class Paced(Spout):
    """So many payloads a second by a timetable; a payload begins with its intended time, from which latency counts.

    A source that waits for answers would be late where the system is slow, and would leave out just what was worst.
    """

    streams = (STREAM,)

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        self.plan = Plan.from_environment()
        self.collector = collector
        self.payload = payloads(1)[0][_STAMP_BYTES:]
        self.number = 0
        self.total = int(self.plan.rate * self.plan.seconds)
        self.interval = 1 / self.plan.rate
        self.latencies = array("d")
        self.failed = 0
        self.latest = 0.0
        self.began = time.monotonic() + 1.0

    def next_tuple(self) -> None:
        number = self.number
        due = self.began + number * self.interval
        late = time.monotonic() - due
        if late < 0 or number >= self.total:
            return
        self.latest = max(self.latest, late)
        self.number = number + 1
        self.collector.emit((b"%0*.6f" % (_STAMP_BYTES, due) + self.payload,), message_id=number)

    def ack(self, message_id: Any) -> None:
        self.latencies.append(time.monotonic() - (self.began + message_id * self.interval))

    def fail(self, message_id: Any, reason: Failure) -> None:
        # It is not replayed: the result has the number of failures.
        self.failed += 1

    def close(self) -> None:
        result = {
            "failed": self.failed,
            "latest_emit_ms": round(self.latest * 1e3, 3),
            "complete_ms": _milliseconds(self.latencies),
        }
        Path(self.plan.directory, "source").write_text(json.dumps(result))


class Transform(BasicBolt):
    """The work of every program that is compared: a payload in upper case."""

    streams = (STREAM,)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        collector.emit((tuple_.values[0].upper(),))


class TransformColumns(ArrowBolt):
    streams = (STREAM,)

    def execute_batch(self, batch: Any, collector: ArrowCollector) -> None:
        upper = pc.ascii_upper(batch.column(0).cast(pa.string())).cast(pa.binary())
        collector.emit({"payload": upper})
        collector.ack()


class Sink(BasicBolt):
    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        pass


class TimedSink(BasicBolt):
    """Writes how long the payloads of a paced source took."""

    def prepare(self, context: TaskContext) -> None:
        self.latencies = array("d")

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        self.latencies.append(time.monotonic() - float(tuple_.values[0][:_STAMP_BYTES]))

    def cleanup(self) -> None:
        Path(Plan.from_environment().directory, "sink").write_text(json.dumps(_milliseconds(self.latencies)))


def _milliseconds(seconds: Iterable[float]) -> list[float]:
    return [round(each * 1e3, 3) for each in seconds]


@cache
def lines() -> tuple[str, ...]:
    """The lines of the text."""
    return tuple(" ".join(words) for words in map(text.words, text.lines()) if words)


@cache
def plain_count(count: int) -> Counter[str]:
    """The words of so many lines, counted in one go; after the last line the text begins again."""
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


class ColumnStateCount(StatefulArrowBolt):
    state = int

    def prepare(self, context: TaskContext) -> None:
        self.topic = Plan.from_environment().sink

    def update_batch(self, values: Any, rows: Any, batch: Any) -> Any:
        return {"value": values.column("value").to_numpy() + np.bincount(rows, minlength=values.num_rows)}

    def emit_batch(self, values: Any, rows: Any, batch: Any, collector: StateArrowCollector) -> None:
        counts = values.column("value").to_numpy()[rows] - rows_behind(rows)
        words = batch.column("word").cast(pa.binary()).to_pylist()
        collector.write(self.topic, [b"%d" % count for count in counts.tolist()], keys=words)


class SinkCount(BasicBolt):
    """The counts in memory, and a result for each word, as `StateCount` has it."""

    streams = (_COUNTED,)

    def prepare(self, context: TaskContext) -> None:
        self.counts: Counter[str] = Counter()

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        word = tuple_.values[0]
        self.counts[word] = count = self.counts[word] + 1
        collector.emit((word, count))


class ColumnSinkCount(ArrowBolt):
    streams = (_COUNTED,)

    def prepare(self, context: TaskContext) -> None:
        self.counts: Counter[str] = Counter()

    def execute_batch(self, batch: Any, collector: ArrowCollector) -> None:
        encoded = batch.column("word").dictionary_encode()
        words, rows = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
        self.counts.update(dict(zip(words, np.bincount(rows).tolist(), strict=True)))
        last = np.fromiter(map(self.counts.__getitem__, words), np.int64, len(words))[rows]
        collector.emit({"word": batch.column("word"), "count": last - rows_behind(rows)})
        collector.ack()


def rows_behind(rows: NDArray[np.integer[Any]]) -> NDArray[np.intp]:
    """For each row, how many of the later ones are of the same key; `rows` numbers the keys, shape `(n,)`."""
    order = np.argsort(rows, kind="stable")
    ends = np.cumsum(np.bincount(rows))  # of the rows of each key in this order
    behind = np.empty(len(rows), np.intp)
    behind[order] = ends[rows[order]] - 1 - np.arange(len(rows))
    return behind


def write_counts(counts: Mapping[str, int]) -> None:
    """Writes the counts of a task into a file of its own."""
    rows = "".join(f"{word} {count}\n" for word, count in counts.items())
    Path(Plan.from_environment().directory, f"count-{uuid.uuid4().hex}").write_text(rows)


def read_counts(directory: Path) -> Counter[str]:
    """The counts of all tasks together, ours or Storm's."""
    total: Counter[str] = Counter()
    for file in directory.glob("count-*"):
        for row in file.read_text().splitlines():
            word, count = row.split(" ")
            total[word] += int(count)
    return total

"""A JSON pipeline of four small steps, from topic to topic: ours compared with Bytewax, Quix Streams and Faust.

    make bench-setup
    python -m benchmarks.pipeline
    python -m benchmarks.pipeline --only ours bytewax --rounds 3
    python -m benchmarks.pipeline --quick --only ours bytewax

    parse   {"user": 7, "page": "/p/3", "ms": 1234} → user, page, ms
    filter  drops the clicks whose ms is a multiple of 10
    enrich  adds the country of the user, from a table in memory
    format  → [7, "/p/3", 1234, "country-7"]

Each process builds its own topology from the plan in its environment. Progress is the growth of the sink.
"""

import contextlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final, Literal, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from confluent_kafka import Message

from benchmarks import harness
from benchmarks.comparison import PARTITIONS, Contestant, Counted, KafkaPeer, Run, Setting, compare, read_counts
from benchmarks.harness import Plan
from benchmarks.peers.arguments import COUNTRIES
from benchmarks.processes import running_topology
from benchmarks.topics import Topics
from spout_sdk import BasicBolt, BasicCollector, KafkaBolt, KafkaSpout, Topology, TopologyBuilder, Tuple, declare
from spout_sdk.api.topology import Factory
from spout_sdk.arrow import ArrowBolt, ArrowCollector
from tuple_tree.manifest import DEFAULT_ACK_PARTITIONS, Guarantee

PIPELINE: Final = "benchmarks.pipeline:pipeline"
CLICKS: Final = "clicks"
TASKS: Final = 2
_LINE: Final = declare({"line": bytes})
_PARSED: Final = declare({"user": int, "page": str, "ms": int})
_ENRICHED: Final = declare({"user": int, "page": str, "ms": int, "country": str})
_TEXT: Final = declare({"text": bytes})
_QUICK_CLICKS: Final = 20_000


def clicks(count: int) -> Iterator[bytes]:
    """Yields `count` clicks as JSON, the same ones in each call."""
    for number in range(count):
        user, page, ms = number * 7919 % len(COUNTRIES), number * 31 % 50, number * 104_729 % 3_000
        yield b'{"user": %d, "page": "/p/%d", "ms": %d}' % (user, page, ms)


@cache
def results(count: int) -> Counter[bytes]:
    """The expected results of `count` clicks, as JSON without spaces, and how often each occurs."""
    found: Counter[bytes] = Counter()
    for line in clicks(count):
        click = json.loads(line)
        if click["ms"] % 10:
            result = [click["user"], click["page"], click["ms"], COUNTRIES[click["user"]]]
            found[json.dumps(result, separators=(",", ":")).encode()] += 1
    return found


@dataclass(frozen=True, slots=True)
class ClicksPlan(Plan):
    """The settings of a run; unless they are chained, the four bolts have inboxes.

    `steps` replaces the bolts by functions, which decode JSON by the standard library, or declare its type (`msgspec`).
    """

    name: str
    topic: str
    sink: str
    ack_partitions: int = DEFAULT_ACK_PARTITIONS
    chained: bool = True
    columns: bool = False
    guarantee: Guarantee = "at_least_once"
    steps: Literal["", "json", "msgspec"] = ""


class Parse(BasicBolt):
    streams = (_PARSED,)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        click = json.loads(tuple_["line"])
        collector.emit((click["user"], click["page"], click["ms"]))


class Filter(BasicBolt):
    streams = (_PARSED,)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        if tuple_["ms"] % 10:
            collector.emit(tuple_.values)


class Enrich(BasicBolt):
    streams = (_ENRICHED,)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        user, page, ms = tuple_.values
        collector.emit((user, page, ms, COUNTRIES[user]))


class Format(BasicBolt):
    streams = (_TEXT,)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        collector.emit((json.dumps(tuple_.values).encode(),))


class ColumnParse(ArrowBolt):
    streams = (_PARSED,)

    def prepare(self, context: Any) -> None:
        schema = pa.schema([("user", pa.int64()), ("page", pa.string()), ("ms", pa.int64())])
        self.options = pj.ParseOptions(explicit_schema=schema)

    def execute_batch(self, batch: Any, collector: ArrowCollector) -> None:
        lines = b"\n".join(batch.column("line").to_pylist())
        collector.emit(pj.read_json(pa.BufferReader(lines), parse_options=self.options))
        collector.ack()


class ColumnFilter(ArrowBolt):
    streams = (_PARSED,)

    def execute_batch(self, batch: Any, collector: ArrowCollector) -> None:
        kept = batch.column("ms").to_numpy() % 10 != 0
        collector.emit(batch.filter(pa.array(kept)), anchors=kept)
        collector.ack()


class ColumnEnrich(ArrowBolt):
    streams = (_ENRICHED,)

    def prepare(self, context: Any) -> None:
        self.countries = pa.array(list(COUNTRIES.values()))

    def execute_batch(self, batch: Any, collector: ArrowCollector) -> None:
        countries = self.countries.take(batch.column("user"))
        columns = {name: batch.column(name) for name in ("user", "page", "ms")}
        collector.emit({**columns, "country": countries})
        collector.ack()


class ColumnFormat(ArrowBolt):
    streams = (_TEXT,)

    def execute_batch(self, batch: Any, collector: ArrowCollector) -> None:
        user, ms = (batch.column(name).cast(pa.string()) for name in ("user", "ms"))
        page, country = batch.column("page"), batch.column("country")
        text = pc.binary_join_element_wise("[", user, ', "', page, '", ', ms, ', "', country, '"]', "")
        collector.emit({"text": text.cast(pa.binary())})
        collector.ack()


class Click(msgspec.Struct):
    user: int
    page: str
    ms: int


class Result(NamedTuple):
    user: int
    page: str
    ms: int
    country: str


def parse(line: bytes) -> Click:
    click = json.loads(line)
    return Click(click["user"], click["page"], click["ms"])


def is_kept(click: Click) -> bool:
    return click.ms % 10 != 0


def enrich(click: Click) -> Result:
    return Result(click.user, click.page, click.ms, COUNTRIES[click.user])


def to_json(result: Result) -> bytes:
    return json.dumps(result).encode()


_STEPS: Final[dict[bool, dict[str, Factory]]] = {
    False: {"parse": Parse, "filter": Filter, "enrich": Enrich, "format": Format},
    True: {"parse": ColumnParse, "filter": ColumnFilter, "enrich": ColumnEnrich, "format": ColumnFormat},
}
"""The bolts, by rows and by columns."""


def pipeline() -> Topology:
    """The pipeline of this process's plan."""
    plan = ClicksPlan.from_environment()
    builder = TopologyBuilder(plan.name, guarantee=plan.guarantee, ack_partitions=plan.ack_partitions)
    if plan.steps == "msgspec":
        typed = builder.spout(CLICKS, KafkaSpout(plan.topic, value=Click), tasks=TASKS)
        typed.filter(is_kept).step(enrich).to(plan.sink)
        return builder.build()
    if plan.steps == "json":
        lines = builder.spout(CLICKS, KafkaSpout(plan.topic, value=bytes), tasks=TASKS)
        lines.step(parse).filter(is_kept).step(enrich).step(to_json).to(plan.sink)
        return builder.build()
    builder.set_spout(CLICKS, KafkaSpout(plan.topic, streams=(_LINE,)), tasks=TASKS)
    source, sink = CLICKS, plan.sink
    steps = {**_STEPS[plan.columns], "publish": lambda: KafkaBolt(sink, codec="bytes", value=["text"])}
    for name, bolt in steps.items():
        declarer = builder.set_bolt(name, bolt, tasks=1 if plan.chained else TASKS)
        (declarer.local_grouping if plan.chained else declarer.shuffle_grouping)(source)
        source = name
    return builder.build()


class Clicks(Contestant):
    """A program that processes clicks; its figures are for a click that is read."""

    def expected(self, count: int) -> Counter[bytes]:
        return results(count)

    def units(self, count: int) -> int:
        return count

    def filled(self, setting: Setting) -> str:
        return setting.source("clicks", clicks)

    def read(self, topics: Topics, sink: str) -> Counter[bytes]:
        """The results; replays may have added duplicates."""

        def add(counts: Counter[bytes], message: Message) -> None:
            counts[(message.value() or b"").replace(b", ", b",")] += 1  # some frameworks write JSON without spaces

        return read_counts(topics, sink, add)


class Ours(Clicks):
    """Our topology: the settings of its `ClicksPlan`, and the number of its worker processes."""

    def __init__(self, name: str, count: int, *, processes: int = 1, **settings: Any) -> None:
        super().__init__(name, count)
        self._processes = processes
        self._settings = settings

    @contextlib.contextmanager
    def run(self, setting: Setting) -> Iterator[Run]:
        topics, sink = setting.topics, setting.sink()
        plan = ClicksPlan(setting.name, self.filled(setting), sink, setting.ack_partitions, **self._settings)
        with running_topology(topics, PIPELINE, plan.environment, self._processes) as running:
            pids = [pid for pids in running.pids().values() for pid in dict.fromkeys(pids)]
            total, done = self.expected(setting.count).total(), partial(topics.end, sink, PARTITIONS)
            yield Run(total, pids, done, running.check, lambda: Counted(self.read(topics, sink)))


class Peer(Clicks, KafkaPeer):
    work = "--clicks"


CONTESTANTS: Final = (
    Ours("ours", 1_000_000),
    Ours("ours-2", 1_000_000, processes=2),
    Ours("ours-steps", 1_500_000, steps="json"),
    Ours("ours-steps-msgspec", 2_000_000, steps="msgspec"),
    Ours("ours-steps-msgspec-at-most-once", 2_000_000, steps="msgspec", guarantee="at_most_once"),
    Ours("ours-columns", 3_000_000, columns=True),
    Ours("ours-at-most-once", 1_000_000, guarantee="at_most_once"),
    Ours("ours-exactly-once", 1_000_000, guarantee="exactly_once"),
    Ours("ours-unchained", 400_000, processes=TASKS, chained=False),
    Ours("ours-unchained-columns", 1_000_000, processes=TASKS, chained=False, columns=True),
    Ours("ours-unchained-at-most-once", 600_000, processes=TASKS, chained=False, guarantee="at_most_once"),
    Ours("ours-unchained-exactly-once", 400_000, processes=TASKS, chained=False, guarantee="exactly_once"),
    Peer("bytewax", "bytewax", 1_000_000),
    Peer("bytewax-msgspec", "bytewax", 1_500_000, options=("--msgspec",)),
    Peer("loop", "loop", 1_500_000),
    Peer("loop-msgspec", "loop", 2_000_000, options=("--msgspec",)),
    Peer("quixstreams", "quixstreams", 500_000),
    Peer("quixstreams-2", "quixstreams", 500_000, processes=2),
    Peer("faust", "faust-streaming", 100_000),
)


if __name__ == "__main__":
    harness.run(lambda: compare("pipeline", __doc__, CONTESTANTS, "clicks", _QUICK_CLICKS, exact=False))

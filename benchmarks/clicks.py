"""The JSON pipeline of `benchmarks.pipeline`: clicks from a topic, in four steps, into another; the expected results.

    parse   {"user": 7, "page": "/p/3", "ms": 1234} → user, page, ms
    filter  drops the clicks whose ms is a multiple of 10
    enrich  adds the country of the user, from a table in memory
    format  → [7, "/p/3", 1234, "country-7"]

Each process builds its own topology from the plan in its environment.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from benchmarks.plan import EnvironmentPlan
from spout_sdk import (
    ArrowBolt,
    ArrowCollector,
    BasicBolt,
    BasicCollector,
    KafkaBolt,
    KafkaSpout,
    Topology,
    TopologyBuilder,
    Tuple,
    declare,
)
from tuple_tree.manifest import DEFAULT_ACK_PARTITIONS, Guarantee

PIPELINE: Final = "benchmarks.clicks:pipeline"
CLICKS: Final = "clicks"
USERS: Final = 1_000
PAGES: Final = 50
COUNTRIES: Final = {user: f"country-{user % 40}" for user in range(USERS)}
TASKS: Final = 2
_LINE: Final = declare({"line": bytes})
_PARSED: Final = declare({"user": int, "page": str, "ms": int})
_ENRICHED: Final = declare({"user": int, "page": str, "ms": int, "country": str})
_TEXT: Final = declare({"text": bytes})


def clicks(count: int) -> Iterator[bytes]:
    """Yields `count` clicks as JSON, the same ones in each call."""
    for number in range(count):
        user, page, ms = number * 7919 % USERS, number * 31 % PAGES, number * 104_729 % 3_000
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
class ClicksPlan(EnvironmentPlan):
    """The settings of a run; `steps`: four bolts in one task, four bolts with inboxes, or one bolt."""

    name: str
    topic: str
    sink: str
    ack_partitions: int = DEFAULT_ACK_PARTITIONS
    steps: Literal["chained", "unchained", "merged"] = "chained"
    columns: bool = False
    guarantee: Guarantee = "at_least_once"


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


class Merged(BasicBolt):
    """The four steps in one bolt."""

    streams = (_TEXT,)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        click = json.loads(tuple_["line"])
        if click["ms"] % 10:
            result = click["user"], click["page"], click["ms"], COUNTRIES[click["user"]]
            collector.emit((json.dumps(result).encode(),))


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


_STEPS: Final = {
    "rows": (("parse", Parse), ("filter", Filter), ("enrich", Enrich), ("format", Format)),
    "columns": (
        ("parse", ColumnParse),
        ("filter", ColumnFilter),
        ("enrich", ColumnEnrich),
        ("format", ColumnFormat),
    ),
    "merged": (("merged", Merged),),
}


def pipeline() -> Topology:
    """The pipeline of this process's plan."""
    plan = ClicksPlan.from_environment()
    builder = TopologyBuilder(plan.name, guarantee=plan.guarantee, ack_partitions=plan.ack_partitions)
    builder.set_spout(CLICKS, KafkaSpout(plan.topic, streams=(_LINE,)), tasks=TASKS)
    steps = _STEPS["merged" if plan.steps == "merged" else "columns" if plan.columns else "rows"]
    source, sink = CLICKS, plan.sink
    for name, bolt in (*steps, ("publish", lambda: KafkaBolt(sink, codec="bytes", value=["text"]))):
        tasks = 1 if plan.steps == "chained" else TASKS
        declarer = builder.set_bolt(name, bolt, tasks=tasks)
        (declarer.local_grouping if plan.steps == "chained" else declarer.shuffle_grouping)(source)
        source = name
    return builder.build()

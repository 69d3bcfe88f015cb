"""The topologies of the benchmarks: a source, bolts that transform, and a sink; the environment has the plan."""

import json
import os
import time
from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, Self

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.processes import RunningTopology, running_topology
from benchmarks.topics import Topics, payloads
from spout_sdk import (
    ArrowBolt,
    ArrowCollector,
    BasicBolt,
    BasicCollector,
    Failure,
    KafkaSpout,
    Spout,
    SpoutCollector,
    TaskContext,
    Topology,
    TopologyBuilder,
    Tuple,
    declare,
)
from tuple_tree.manifest import DEFAULT_ACK_PARTITIONS, Guarantee

REFERENCE: Final = "benchmarks.topologies:planned"
STREAM: Final = declare({"payload": bytes})
_PLAN: Final = "ACKER_BENCHMARK_PLAN"
_STAMP_BYTES: Final = 20

Source = Literal["prepared", "topic", "paced"]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run: `prepared` payloads at full speed, the records of a topic, or payloads by a timetable for a time."""

    name: str
    guarantee: Guarantee = "at_least_once"
    source: Source = "prepared"
    hops: int = 2
    max_spout_pending: int = 20_000
    ack_partitions: int = DEFAULT_ACK_PARTITIONS
    topic: str = ""
    rate: float = 0.0
    seconds: float = 0.0
    directory: str = ""
    """Where the paced source and its sink write their latencies."""
    columns: bool = False

    @property
    def environment(self) -> dict[str, str]:
        return {_PLAN: json.dumps(asdict(self))}

    @classmethod
    def from_environment(cls) -> Self:
        return cls(**json.loads(os.environ[_PLAN]))

    def topology(self) -> Topology:
        builder = TopologyBuilder(
            self.name,
            guarantee=self.guarantee,
            ack_partitions=self.ack_partitions,
            max_spout_pending=self.max_spout_pending,
            message_timeout=60.0,
        )
        paced, source = self.source == "paced", "source"
        spout = Paced if paced else Prepared
        builder.set_spout(source, KafkaSpout(self.topic, streams=(STREAM,)) if self.source == "topic" else spout)
        for number in range(self.hops - 1):
            bolt = f"transform{number or ''}"
            builder.set_bolt(bolt, TransformColumns if self.columns else Transform).shuffle_grouping(source)
            source = bolt
        builder.set_bolt("sink", TimedSink if paced else Sink).shuffle_grouping(source)
        return builder.build()


def planned() -> Topology:
    """The topology of this process's plan."""
    return Plan.from_environment().topology()


@contextmanager
def running_plan(topics: Topics, plan: Plan) -> Iterator[RunningTopology]:
    """Makes the topics of a plan, and runs all its components, one process each, and one acker worker."""
    topics.create_for(plan.topology().manifest)
    with running_topology(topics.servers, REFERENCE, plan.environment) as running:
        yield running


class Prepared(Spout):
    """Payloads that are ready, at full speed: a source that costs nothing."""

    streams = (STREAM,)

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        self.collector = collector
        self.values = [(payload,) for payload in payloads()]
        self.again: deque[int] = deque()
        self.number = 0

    def next_tuple(self) -> None:
        if self.again:
            number = self.again.popleft()
        else:
            number = self.number = self.number + 1
        self.collector.emit(self.values[number % len(self.values)], message_id=number)

    def fail(self, message_id: Any, reason: Failure) -> None:
        self.again.append(message_id)


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

"""The topologies of the benchmarks: a source, bolts that transform, and a sink; the environment has the plan."""

import json
import os
import time
from array import array
from collections import deque
from collections.abc import Iterator
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
"""Of every component: payloads of 100 bytes."""
_PLAN: Final = "ACKER_BENCHMARK_PLAN"
_STAMP_BYTES: Final = 20

Source = Literal["prepared", "topic", "paced", "endless"]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run.

    Attributes:
        name: of the topology.
        guarantee: of the topology.
        source: `prepared` payloads at full speed, the records of a `topic`, or `paced` payloads for some seconds, or
            `endless` paced ones until a file is there.
        hops: bolts, one behind the other; the last emits nothing.
        max_spout_pending: open trees.
        ack_partitions: of the ack log.
        topic: for the source that reads one.
        rate: tuples a second, for the paced sources.
        seconds: after which the paced source ends.
        directory: where the paced source and its sink write their latencies.
        stop: the endless source ends once this file is there.
        columns: whether the bolts that transform take Arrow record batches.
    """

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
    stop: str = ""
    columns: bool = False

    @property
    def bolts(self) -> tuple[str, ...]:
        """Their names, in order."""
        return (*(f"transform{number or ''}" for number in range(self.hops - 1)), "sink")

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of its processes."""
        return {_PLAN: json.dumps(asdict(self))}

    @classmethod
    def from_environment(cls) -> Self:
        """The plan of this process."""
        return cls(**json.loads(os.environ[_PLAN]))

    def topology(self) -> Topology:
        builder = TopologyBuilder(
            self.name,
            guarantee=self.guarantee,
            ack_partitions=self.ack_partitions,
            max_spout_pending=self.max_spout_pending,
            message_timeout=60.0,
        )
        sources = {"prepared": Prepared, "paced": Paced, "endless": Endless}
        spout = KafkaSpout(self.topic, streams=(STREAM,)) if self.source == "topic" else sources[self.source]
        builder.set_spout("source", spout)
        source, transform = "source", TransformColumns if self.columns else Transform
        sink = TimedSink if self.source == "paced" else Sink
        for bolt in self.bolts:
            builder.set_bolt(bolt, sink if bolt == "sink" else transform).shuffle_grouping(source)
            source = bolt
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
        # Nothing is held: the payload of a number can be had again.
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
            "complete_ms": [round(latency * 1e3, 3) for latency in self.latencies],
        }
        Path(self.plan.directory, f"{self.plan.name}.source").write_text(json.dumps(result))


class Endless(Prepared):
    """So many payloads a second, until the stop file is there. What fails is emitted again."""

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        super().open(context, collector)
        plan = Plan.from_environment()
        self.context = context
        self.rate = plan.rate
        self.stop = Path(plan.stop)
        self.check_at = 0.0
        self.began = time.monotonic()
        self.due = 0
        self.ended = False

    def next_tuple(self) -> None:
        # A clock and a division a tuple would be a part of what is measured: what is due is worked out at once.
        if self.number >= self.due and not self.again:
            now = time.monotonic()
            if now >= self.check_at:
                self.check_at = now + 0.1
                if not self.ended and self.stop.exists():
                    self.ended = True
                    self.context.count("ended")
            if not self.ended:
                self.due = int((now - self.began) * self.rate)
            if self.number >= self.due:
                return
        super().next_tuple()


class Transform(BasicBolt):
    """The work of every program that is compared: a payload in upper case."""

    streams = (STREAM,)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        collector.emit((tuple_.values[0].upper(),))


class TransformColumns(ArrowBolt):
    """The same, of whole columns."""

    streams = (STREAM,)

    def execute_batch(self, batch: Any, collector: ArrowCollector) -> None:
        upper = pc.ascii_upper(batch.column(0).cast(pa.string())).cast(pa.binary())
        collector.emit({"payload": upper})
        collector.ack()


class Sink(BasicBolt):
    """Takes what comes."""

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        pass


class TimedSink(BasicBolt):
    """Notes how long the payloads of a paced source took to come."""

    def prepare(self, context: TaskContext) -> None:
        self.latencies = array("d")

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        self.latencies.append(time.monotonic() - float(tuple_.values[0][:_STAMP_BYTES]))

    def cleanup(self) -> None:
        plan = Plan.from_environment()
        latencies = [round(latency * 1e3, 3) for latency in self.latencies]
        Path(plan.directory, f"{plan.name}.sink").write_text(json.dumps(latencies))

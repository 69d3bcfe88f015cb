"""The topologies that the benchmarks run, in processes of their own; the environment says which."""

import json
import os
import time
from array import array
from collections import deque
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, Self

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.broker_topics import payloads
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
from tuple_tree.manifest import Guarantee

PLAN: Final = "ACKER_BENCHMARK_PLAN"
REFERENCE: Final = "benchmarks.plans:planned"

Source = Literal["prepared", "topic", "paced", "endless"]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run.

    Attributes:
        name: of the topology.
        guarantee: what it promises.
        source: `prepared` payloads as fast as they are taken, the records of a `topic`, or `paced` payloads.
        hops: bolts, one behind the other; the last emits nothing.
        max_spout_pending: open trees.
        ack_partitions: of the ack log.
        topic: for the source that reads one.
        rate: tuples a second, for the paced sources.
        seconds: after which the paced source ends.
        report: where the paced source writes what it measured, if it is to keep all latencies.
        stop: the endless source ends once this file is there.
        columns: whether the bolts that transform take Arrow record batches.
    """

    name: str
    guarantee: Guarantee = "at_least_once"
    source: Source = "prepared"
    hops: int = 2
    max_spout_pending: int = 20_000
    ack_partitions: int = 1
    topic: str = ""
    rate: float = 0.0
    seconds: float = 0.0
    report: str = ""
    stop: str = ""
    columns: bool = False

    @property
    def bolts(self) -> tuple[str, ...]:
        """Their names, in order."""
        return (*(f"transform{number or ''}" for number in range(self.hops - 1)), "sink")

    @property
    def environment(self) -> dict[str, str]:
        """What its processes must be told."""
        return {PLAN: json.dumps(asdict(self))}

    @classmethod
    def told(cls) -> Self:
        """The plan that this process was told."""
        return cls(**json.loads(os.environ[PLAN]))


STREAM: Final = declare({"payload": bytes})
"""Of every component: payloads, in packs."""


class Prepared(Spout):
    """Payloads that are ready, as fast as they are taken: a source that costs nothing."""

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
    """So many payloads a second by a timetable, whatever becomes of them: latency counts from the time intended.

    A source that waits for answers would be late where the system is slow, and would leave out just what was worst.
    """

    streams = (STREAM,)

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        self.plan = Plan.told()
        self.collector = collector
        self.values = [(payload,) for payload in payloads()]
        self.number = 0
        self.total = int(self.plan.rate * self.plan.seconds)
        self.interval = 1 / self.plan.rate
        self.latencies = array("d")
        self.failed = 0
        self.latest = 0.0
        self.began = time.monotonic() + 1.0

    def next_tuple(self) -> None:
        number = self.number
        late = time.monotonic() - (self.began + number * self.interval)
        if late < 0 or number >= self.total:
            return
        self.latest = max(self.latest, late)
        self.number = number + 1
        self.collector.emit(self.values[number % len(self.values)], message_id=number)

    def ack(self, message_id: Any) -> None:
        self.latencies.append(time.monotonic() - (self.began + message_id * self.interval))

    def fail(self, message_id: Any, reason: Failure) -> None:
        # It is not replayed: a run with failures is told as one.
        self.failed += 1

    def close(self) -> None:
        said = {
            "emitted": self.number,
            "failed": self.failed,
            "latest_emit_ms": self.latest * 1e3,
            "latencies_ms": [round(latency * 1e3, 3) for latency in self.latencies],
        }
        Path(self.plan.report).write_text(json.dumps(said))


class Endless(Prepared):
    """So many payloads a second, until it is told to end. What fails is emitted again."""

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        super().open(context, collector)
        plan = Plan.told()
        self.context = context
        self.rate = plan.rate
        self.stop = Path(plan.stop)
        self.look_at = 0.0
        self.began = time.monotonic()
        self.due = 0
        self.ended = False

    def next_tuple(self) -> None:
        # A clock and a division a tuple would be a part of what is measured: what is due is worked out at once.
        if self.number >= self.due and not self.again:
            now = time.monotonic()
            if now >= self.look_at:
                self.look_at = now + 0.1
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


class Last(BasicBolt):
    """Takes what comes."""

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        pass


_SOURCES: Final[dict[str, type[Spout]]] = {
    "prepared": Prepared,
    "paced": Paced,
    "endless": Endless,
}


def of(plan: Plan) -> Topology:
    """The topology of a plan."""
    builder = TopologyBuilder(
        plan.name,
        guarantee=plan.guarantee,
        ack_partitions=plan.ack_partitions,
        max_spout_pending=plan.max_spout_pending,
        message_timeout=60.0,
    )
    spout = KafkaSpout(plan.topic, streams=(STREAM,)) if plan.source == "topic" else _SOURCES[plan.source]
    builder.set_spout("source", spout)
    source = "source"
    for bolt in plan.bolts:
        transform = TransformColumns if plan.columns else Transform
        builder.set_bolt(bolt, Last if bolt == "sink" else transform).shuffle_grouping(source)
        source = bolt
    return builder.build()


def planned() -> Topology:
    """The topology that this process was told to run."""
    return of(Plan.told())

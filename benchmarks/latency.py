"""Latency of a topology: from the time at which a tuple was to be emitted until it is executed, and until it is acked.

    python -m benchmarks.latency                 # complete latency over three hops, at 1,000 trees a second
    python -m benchmarks.latency --guarantees    # of the three guarantees through two bolts, at 20 and 500 a second
    python -m benchmarks.latency --rate 5000 --seconds 30
    python -m benchmarks.latency --quick

By the method of Storm's `ThroughputVsLatency`: over three hops, the spout and three bolts, a process each, and an acker
worker, latency counts from the *intended* emit. The spout emits by a timetable and never waits, so all tuples that were
due during a stall include it, as they include what the spout itself is late by.
"""

import json
import sys
import tempfile
import time
import uuid
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, get_args

from benchmarks import harness
from benchmarks.harness import Benchmark, wait
from benchmarks.processes import running_topology
from benchmarks.topics import Topics, broker, payloads
from spout_sdk import (
    BasicBolt,
    BasicCollector,
    Spout,
    SpoutCollector,
    TaskContext,
    Topology,
    TopologyBuilder,
    Tuple,
    declare,
)
from tuple_tree.manifest import DEFAULT_ACK_PARTITIONS, Guarantee

QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "max": 1.0}
TOPOLOGY: Final = "benchmarks.latency:topology"
_STREAM: Final = declare({"payload": bytes})
_STAMP_BYTES: Final = 20
_DRAIN_SECONDS: Final = 60.0


def quantiles(latencies: Sequence[float]) -> dict[str, float]:
    """The smallest latency that a share of all does not exceed, for each of the shares; milliseconds."""
    ordered = sorted(latencies)
    last = len(ordered) - 1
    return {name: ordered[min(last, int(share * len(ordered)))] for name, share in QUANTILES.items()}


@dataclass(frozen=True, slots=True)
class Plan(harness.Plan):
    """A round: `rate` payloads a second for `seconds`, over `hops` hops; `directory` is for its latencies."""

    rate: float
    seconds: float
    ack_partitions: int
    guarantee: Guarantee = "at_least_once"
    hops: int = 2
    tasks: int = 1  # of each bolt between the source and the sink
    name: str = ""
    directory: str = ""


def topology() -> Topology:
    """The source, the hops after it, and the sink of this process's plan."""
    plan, source = Plan.from_environment(), "source"
    builder = TopologyBuilder(
        plan.name,
        guarantee=plan.guarantee,
        ack_partitions=plan.ack_partitions,
        max_spout_pending=20_000,
        message_timeout=120.0,
    )
    builder.set_spout(source, Paced)
    for number in range(1, plan.hops):
        bolt = f"transform{number}"
        builder.set_bolt(bolt, Transform, tasks=plan.tasks).shuffle_grouping(source)
        source = bolt
    builder.set_bolt("sink", TimedSink).shuffle_grouping(source)
    return builder.build()


class Timed:
    """Keeps latencies, and writes them at the end into a file of the plan's directory."""

    def begin(self, file: str) -> None:
        self.plan = Plan.from_environment()
        self.latencies = array("d")
        self._file = Path(self.plan.directory, file)

    def took(self, since: float) -> None:
        self.latencies.append(time.monotonic() - since)

    def end(self) -> None:
        self._file.write_text(json.dumps([round(each * 1e3, 3) for each in self.latencies]))


class Paced(Timed, Spout):
    """Emits payloads by a timetable; a payload begins with its intended time, from which latency counts.

    A source that waits for answers would be late where the system is slow, and would leave out just what was worst.
    A failed payload is not replayed.
    """

    streams = (_STREAM,)

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        self.begin("source")
        self.collector = collector
        self.payload = payloads(1)[0][_STAMP_BYTES:]
        self.number, self.total = 0, int(self.plan.rate * self.plan.seconds)
        self.began = time.monotonic() + 1.0

    def due(self, number: int) -> float:
        return self.began + number / self.plan.rate

    def next_tuple(self) -> None:
        number, due = self.number, self.due(self.number)
        if number < self.total and time.monotonic() >= due:
            self.number = number + 1
            self.collector.emit((b"%0*.6f" % (_STAMP_BYTES, due) + self.payload,), message_id=number)

    def ack(self, message_id: Any) -> None:
        self.took(self.due(message_id))

    def close(self) -> None:
        self.end()


class Transform(BasicBolt):
    """A payload in upper case."""

    streams = (_STREAM,)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        collector.emit((tuple_.values[0].upper(),))


class TimedSink(Timed, BasicBolt):
    """Writes how long the payloads of a paced source took."""

    def prepare(self, context: TaskContext) -> None:
        self.begin("sink")

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        self.took(float(tuple_.values[0][:_STAMP_BYTES]))

    def cleanup(self) -> None:
        self.end()


def measure(topics: Topics, plan: Plan, warm: float) -> dict[str, float]:
    """A round of a plan with a timetable; its first `warm` seconds do not count.

    Returns:
        The quantiles of the latencies in milliseconds, until the spout's `ack`, or where no trees are tracked until
        the `execute` of the last bolt.
    """
    expected, tracked = int(plan.rate * plan.seconds), plan.guarantee != "at_most_once"
    with tempfile.TemporaryDirectory() as directory:
        plan = replace(plan, name=f"latency-{uuid.uuid4().hex[:8]}", directory=directory)
        with running_topology(topics, TOPOLOGY, plan.environment) as running:

            def done() -> bool:
                running.check()
                stats = running.runner.stats()
                return min(stats["source"].acked if tracked else expected, stats["sink"].executed) >= expected

            wait(done, f"the {expected:,} tuples were not complete", plan.seconds + _DRAIN_SECONDS, 0.2)
        latencies = json.loads(Path(directory, "source" if tracked else "sink").read_text())
    # They are nearly in the order of the emits.
    return {f"{name}_ms": value for name, value in quantiles(latencies[int(plan.rate * warm) :]).items()}


def main() -> None:
    # A run of its own, with other defaults, whose result is kept under another name.
    guarantees = "--guarantees" in sys.argv
    bench = Benchmark("latency_of_guarantees" if guarantees else "latency", __doc__, rounds=1 if guarantees else 3)
    bench.parser.add_argument("--guarantees", action="store_true", help="of the three guarantees, over two hops")
    rates = [20.0, 500.0] if guarantees else [1_000.0]
    bench.option("--rate", rates, quick=rates[:1], nargs="+", type=float, help="tuples a second")
    bench.option("--seconds", 15.0 if guarantees else 60.0, quick=5.0, help="of a round")
    bench.option("--warm", 2.0 if guarantees else 10.0, quick=2.0, help="seconds before, which do not count")
    bench.option("--ack-partitions", DEFAULT_ACK_PARTITIONS, help="of the ack log")
    given = bench.start()
    kinds: list[dict[str, Any]] = [{"hops": 3}]
    if guarantees:
        kinds = [{"guarantee": guarantee} for guarantee in get_args(Guarantee)]
    seconds = given.warm + given.seconds
    plans = [Plan(rate, seconds, given.ack_partitions, **kind) for rate in given.rate for kind in kinds]
    with broker() as topics:
        runs = {f"{each.guarantee} at {each.rate:g}/s": partial(measure, topics, each, given.warm) for each in plans}
        results = harness.in_turn(runs, bench.rounds)
    bench.publish(
        [
            {"guarantee": each.guarantee, "rate": each.rate, "hops": each.hops, **harness.spreads(rounds)}
            for each, rounds in zip(plans, results.values(), strict=True)
        ]
    )


if __name__ == "__main__":
    harness.run(main)

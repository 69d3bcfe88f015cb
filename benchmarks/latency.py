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
from collections.abc import Iterable, Sequence
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
    Failure,
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


class Paced(Spout):
    """Emits payloads by a timetable; a payload begins with its intended time, from which latency counts.

    A source that waits for answers would be late where the system is slow, and would leave out just what was worst.
    """

    streams = (_STREAM,)

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
    """A payload in upper case."""

    streams = (_STREAM,)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        collector.emit((tuple_.values[0].upper(),))


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


def measure(topics: Topics, plan: Plan, warm: float) -> dict[str, Any]:
    """A round of a plan with a timetable; its first `warm` seconds do not count.

    Returns:
        `latencies` in milliseconds, in the order in which trees completed, until the spout's `ack`, or where no trees
        are tracked until the `execute` of the last bolt; `failed`; `latest_emit_ms`.
    """
    expected, tracked = int(plan.rate * plan.seconds), plan.guarantee != "at_most_once"
    with tempfile.TemporaryDirectory() as directory:
        plan = replace(plan, name=f"latency-{uuid.uuid4().hex[:8]}", directory=directory)
        with running_topology(topics, TOPOLOGY, plan.environment) as running:

            def done() -> bool:
                running.check()
                stats = running.runner.stats()
                ended = stats["source"].acked + sum(stats["source"].failed.values()) if tracked else expected
                return min(ended, stats["sink"].executed) >= expected

            wait(done, f"the {expected:,} tuples were not complete", plan.seconds + _DRAIN_SECONDS, 0.2)
        result: dict[str, Any] = json.loads(Path(directory, "source").read_text())
        delivery = json.loads(Path(directory, "sink").read_text())
    # Nearly in the order of the emits.
    latencies = result.pop("complete_ms") if tracked else delivery
    return {**result, "latencies": latencies[int(plan.rate * warm) :]}


def row(plan: Plan, rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    measured = harness.spreads([quantiles(each["latencies"]) for each in rounds])
    return {
        "guarantee": plan.guarantee,
        "rate": plan.rate,
        "hops": plan.hops,
        "tuples": sum(len(each["latencies"]) for each in rounds),
        "failed": sum(each["failed"] for each in rounds),
        "latest_emit_ms": max(each["latest_emit_ms"] for each in rounds),
        **{f"{name}_ms": spread for name, spread in measured.items()},
    }


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
        results = harness.in_turn(runs, bench.rounds, shown=lambda each: str(quantiles(each["latencies"])))
    bench.publish([row(each, of) for each, of in zip(plans, results.values(), strict=True)])


if __name__ == "__main__":
    harness.run(main)

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
from benchmarks.harness import Benchmark, BenchmarkError
from benchmarks.plan import EnvironmentPlan
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
_TOPOLOGY: Final = "benchmarks.latency:topology"
_STREAM: Final = declare({"payload": bytes})
_STAMP_BYTES: Final = 20
_DRAIN_SECONDS: Final = 60.0


def quantiles(latencies: Sequence[float]) -> dict[str, float]:
    """The smallest latency that a share of all does not exceed, for each of the shares; milliseconds."""
    ordered = sorted(latencies)
    last = len(ordered) - 1
    return {name: ordered[min(last, int(share * len(ordered)))] for name, share in QUANTILES.items()}


@dataclass(frozen=True, slots=True)
class Plan(EnvironmentPlan):
    """A round: `rate` payloads a second for `seconds`, over `hops` hops; `directory` is for its latencies."""

    rate: float
    seconds: float
    ack_partitions: int
    guarantee: Guarantee = "at_least_once"
    hops: int = 2
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
        message_timeout=60.0,
    )
    builder.set_spout(source, Paced)
    for number in range(plan.hops - 1):
        bolt = f"transform{number or ''}"
        builder.set_bolt(bolt, Transform).shuffle_grouping(source)
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
        `delivery_ms`, from the intended emit to the `execute` of the last bolt, and `complete_ms`, to the spout's
        `ack` (empty where no trees are tracked), each in the order in which they completed; `failed`; `latest_emit_ms`.
    """
    # In the order in which they completed, which is nearly that of their emits.
    first, expected = int(plan.rate * warm), int(plan.rate * plan.seconds)
    tracked = plan.guarantee != "at_most_once"
    with tempfile.TemporaryDirectory() as directory:
        plan = replace(plan, name=f"latency-{uuid.uuid4().hex[:8]}", directory=directory)
        with running_topology(topics, _TOPOLOGY, plan.environment) as running:
            deadline = time.monotonic() + plan.seconds + _DRAIN_SECONDS
            done = 0
            while done < expected:
                time.sleep(0.2)
                stats = running.runner.stats()
                source, done = stats["source"], stats["sink"].executed
                if tracked:
                    done = min(done, source.acked + sum(source.failed.values()))
                running.check()
                if time.monotonic() > deadline:
                    raise BenchmarkError(
                        f"{expected - done} of {expected} tuples were not complete {_DRAIN_SECONDS:g} s after the end"
                    )
        result: dict[str, Any] = json.loads(Path(directory, "source").read_text())
        delivery = json.loads(Path(directory, "sink").read_text())
    return {**result, "complete_ms": result["complete_ms"][first:] if tracked else [], "delivery_ms": delivery[first:]}


def row_of_hops(plan: Plan, rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    measured = [quantiles(each["complete_ms"]) for each in rounds]
    return {
        "rate": plan.rate,
        "hops": plan.hops,
        "trees": sum(len(each["complete_ms"]) for each in rounds),
        "failed": sum(each["failed"] for each in rounds),
        "latest_emit_ms": max(each["latest_emit_ms"] for each in rounds),
        **{f"{name}_ms": spread for name, spread in harness.spreads(measured).items()},
    }


def row_of_guarantee(plan: Plan, rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    def shown(kind: str) -> dict[str, float] | None:
        latencies = [latency for each in rounds for latency in each[kind]]
        return {name: round(quantiles(latencies)[name], 1) for name in ("p50", "p99")} if latencies else None

    return {
        "guarantee": plan.guarantee,
        "rate": plan.rate,
        "tuples": sum(len(each["delivery_ms"]) for each in rounds),
        "delivery_ms": shown("delivery_ms"),
        "complete_ms": shown("complete_ms"),
        "failed": sum(each["failed"] for each in rounds),
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
        shown = "{0[p50]:.1f} ms p50, {0[p99]:.1f} ms p99".format
        results = harness.in_turn(runs, bench.rounds, shown=lambda each: shown(quantiles(each["delivery_ms"])))
    row = row_of_guarantee if guarantees else row_of_hops
    bench.publish([row(each, of) for each, of in zip(plans, results.values(), strict=True)])


if __name__ == "__main__":
    harness.run(main)

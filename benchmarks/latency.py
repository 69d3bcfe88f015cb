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
import tempfile
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, get_args

from benchmarks import harness
from benchmarks.harness import BenchmarkError, Spread
from benchmarks.processes import running_topology
from benchmarks.topics import Topics, broker
from benchmarks.topologies import TRANSFORM, Plan
from tuple_tree.manifest import DEFAULT_ACK_PARTITIONS, Guarantee

QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "max": 1.0}
_DRAIN_SECONDS: Final = 60.0


def quantiles(latencies: Sequence[float]) -> dict[str, float]:
    """The smallest latency that a share of all does not exceed, for each of the shares; milliseconds."""
    ordered = sorted(latencies)
    last = len(ordered) - 1
    return {name: ordered[min(last, int(share * len(ordered)))] for name, share in QUANTILES.items()}


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
        with running_topology(topics, TRANSFORM, plan.environment) as running:
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
        **{f"{name}_ms": Spread.of([each[name] for each in measured], 2) for name in QUANTILES},
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
    parser = harness.parser(__doc__, "one short round")
    parser.add_argument("--guarantees", action="store_true", help="of the three guarantees")
    parser.add_argument("--rate", type=float, help="tuples a second")
    parser.add_argument("--seconds", type=float, help="of a round; 60 unless given, 15 with --guarantees")
    parser.add_argument(
        "--warm", type=float, help="seconds before, which do not count; 10 unless given, 2 of a guarantee"
    )
    parser.add_argument("--rounds", type=int, help="3 unless given, 1 with --guarantees")
    parser.add_argument("--ack-partitions", type=int, default=DEFAULT_ACK_PARTITIONS, help="of the ack log")
    given = parser.parse_args()
    given.seconds = given.seconds or (5.0 if given.quick else 15.0 if given.guarantees else 60.0)
    given.warm = given.warm or (2.0 if given.quick or given.guarantees else 10.0)
    given.rounds = given.rounds or (1 if given.quick or given.guarantees else 3)
    kinds: list[dict[str, Any]] = [{"hops": 3}]
    rates: list[float] = [1_000]
    if given.guarantees:
        kinds = [{"guarantee": guarantee} for guarantee in get_args(Guarantee)]
        rates = [20.0] if given.quick else [20.0, 500.0]
    plan = Plan("", ack_partitions=given.ack_partitions, seconds=given.warm + given.seconds)
    plans = [replace(plan, rate=rate, **kind) for rate in ([given.rate] if given.rate else rates) for kind in kinds]
    host = harness.machine()
    with broker() as topics:
        runs = {f"{each.guarantee} at {each.rate:g}/s": partial(measure, topics, each, given.warm) for each in plans}
        results = harness.in_turn(runs, given.rounds, shown=lambda result: str(quantiles(result["delivery_ms"])))
    row = row_of_guarantee if given.guarantees else row_of_hops
    rows = [row(each, of) for each, of in zip(plans, results.values(), strict=True)]
    settings = {
        "seconds": given.seconds,
        "warm_seconds": given.warm,
        "rounds": given.rounds,
        "ack_partitions": given.ack_partitions,
    }
    benchmark = "exactly_once" if given.guarantees else "latency"
    harness.publish(benchmark, host, rows, settings, harness.directory(given))


if __name__ == "__main__":
    harness.run(main)

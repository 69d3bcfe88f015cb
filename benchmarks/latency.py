"""Complete latency: from the time at which a tuple was to be emitted until its spout's `ack`.

    python -m benchmarks.latency
    python -m benchmarks.latency --rate 5000 --seconds 30
    python -m benchmarks.latency --quick

By the method of Storm's `ThroughputVsLatency`: 1,000 trees a second over three hops (the spout and three bolts, a
process each, and an acker worker), and latency counts from the *intended* emit. The spout emits by a timetable and
never waits, so all tuples that were due during a stall include it, as they include what the spout itself is late by.
"""

import json
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks import harness
from benchmarks.harness import BenchmarkError, Spread
from benchmarks.topics import Topics, broker
from benchmarks.topologies import Plan, running_plan
from tuple_tree.manifest import DEFAULT_ACK_PARTITIONS, Guarantee

QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "max": 1.0}
_DRAIN_SECONDS: Final = 60.0


def quantiles(latencies: Sequence[float]) -> dict[str, float]:
    """The smallest latency that a share of all does not exceed, for each of the shares; milliseconds."""
    ordered = sorted(latencies)
    last = len(ordered) - 1
    return {name: ordered[min(last, int(share * len(ordered)))] for name, share in QUANTILES.items()}


def measure(
    topics: Topics,
    rate: float,
    seconds: float,
    warm: float,
    *,
    hops: int = 3,
    guarantee: Guarantee = "at_least_once",
    ack_partitions: int = DEFAULT_ACK_PARTITIONS,
) -> dict[str, Any]:
    """A round of a topology at so many tuples a second; the first `warm` seconds do not count.

    Returns:
        `delivery_ms`, from the intended emit to the `execute` of the last bolt, and `complete_ms`, to the spout's
        `ack` (empty where no trees are tracked), each in the order in which they completed; `failed`; `latest_emit_ms`.
    """
    with tempfile.TemporaryDirectory() as directory:
        plan = Plan(
            f"latency-{uuid.uuid4().hex[:8]}",
            guarantee,
            "paced",
            hops,
            ack_partitions=ack_partitions,
            rate=rate,
            seconds=warm + seconds,
            directory=directory,
        )
        expected, tracked = int(rate * plan.seconds), guarantee != "at_most_once"
        with running_plan(topics, plan) as running:
            deadline = time.monotonic() + plan.seconds + _DRAIN_SECONDS
            while True:
                stats = running.runner.stats()
                source, done = stats["source"], stats["sink"].executed
                if tracked:
                    done = min(done, source.acked + sum(source.failed.values()))
                if done >= expected:
                    break
                running.check()
                if time.monotonic() > deadline:
                    raise BenchmarkError(
                        f"{expected - done} of {expected} tuples were not complete {_DRAIN_SECONDS:g} s after the end"
                    )
                time.sleep(0.2)
        result: dict[str, Any] = json.loads(Path(directory, "source").read_text())
        delivery = json.loads(Path(directory, "sink").read_text())
    # In the order in which they completed, which is nearly that of their emits.
    first = int(rate * warm)
    complete = result["complete_ms"][first:] if tracked else []
    return {**result, "complete_ms": complete, "delivery_ms": delivery[first:]}


def main() -> None:
    parser = harness.parser(__doc__, "one short round")
    parser.add_argument("--rate", type=float, default=1_000, help="trees a second")
    parser.add_argument("--seconds", type=float, help="of a round; 60 unless given")
    parser.add_argument("--warm", type=float, help="seconds before, which do not count; 10 unless given")
    parser.add_argument("--rounds", type=int, help="3 unless given")
    parser.add_argument("--ack-partitions", type=int, default=DEFAULT_ACK_PARTITIONS, help="of the ack log")
    given = parser.parse_args()
    seconds = given.seconds or (5.0 if given.quick else 60.0)
    warm = given.warm or (2.0 if given.quick else 10.0)
    rounds = given.rounds or (1 if given.quick else 3)
    host = harness.machine()
    with broker() as topics:
        results = harness.in_turn(
            {"latency": lambda: measure(topics, given.rate, seconds, warm, ack_partitions=given.ack_partitions)},
            rounds,
            shown=lambda result: str(quantiles(result["complete_ms"])),
        )["latency"]
    measured = [quantiles(each["complete_ms"]) for each in results]
    row = {
        "rate": given.rate,
        "hops": 3,
        "trees": sum(len(each["complete_ms"]) for each in results),
        "failed": sum(each["failed"] for each in results),
        "latest_emit_ms": max(each["latest_emit_ms"] for each in results),
        **{f"{name}_ms": Spread.of([each[name] for each in measured], 2) for name in QUANTILES},
    }
    settings = {"seconds": seconds, "warm_seconds": warm, "rounds": rounds, "ack_partitions": given.ack_partitions}
    harness.publish("latency", host, [row], settings, harness.directory(given))


if __name__ == "__main__":
    harness.run(main)

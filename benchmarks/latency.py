"""Complete latency: from the time at which a tuple was to be emitted until its spout heard that its tree is complete.

    python -m benchmarks.latency
    python -m benchmarks.latency --rate 5000 --seconds 30
    python -m benchmarks.latency --quick

By the method of Storm's `ThroughputVsLatency`: 1,000 trees a second over three hops (the spout and three bolts, a
process each, and an acker worker), and latency counts from the *intended* emit. The spout emits by a timetable and
waits for nobody, so a stall is seen by every tuple that was due meanwhile, and not only by the one that was under way;
what the spout itself is late by is included. All latencies are kept, so the quantiles are exact; the first seconds, in
which everything is new, are left out.
"""

import argparse
import json
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks import command, running
from benchmarks.broker_topics import Topics
from benchmarks.errors import BenchmarkError
from benchmarks.plans import Plan
from benchmarks.results import Spread, machine, publish, report
from local_kafka import LocalKafka

QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "max": 1.0}
_DRAIN_SECONDS: Final = 60.0


def quantiles(latencies: Sequence[float]) -> dict[str, float]:
    """The smallest latency that a share of all does not exceed, for each of the shares; milliseconds."""
    ordered = sorted(latencies)
    last = len(ordered) - 1
    return {name: ordered[min(last, int(share * len(ordered)))] for name, share in QUANTILES.items()}


def measure(topics: Topics, given: argparse.Namespace, directory: Path) -> dict[str, Any]:
    """One round."""
    name = f"latency-{uuid.uuid4().hex[:8]}"
    said = directory / name
    seconds = given.warm + given.seconds
    plan = Plan(
        name,
        source="paced",
        hops=3,
        rate=given.rate,
        seconds=seconds,
        report=str(said),
        ack_partitions=given.ack_partitions,
    )
    running.make_topics(topics, plan)
    expected = int(plan.rate * plan.seconds)
    with running.topology(topics.servers, plan) as ours:
        deadline = time.monotonic() + seconds + _DRAIN_SECONDS
        while True:
            stats = ours.runner.stats()["source"]
            if stats.acked + sum(stats.failed.values()) >= expected:
                break
            ours.check()
            if time.monotonic() > deadline:
                raise BenchmarkError(
                    f"{expected - stats.acked} of {expected} trees were not complete {_DRAIN_SECONDS:g} s after the end"
                )
            time.sleep(0.2)
    measured = json.loads(said.read_text())
    # In the order in which they completed, which is nearly that of their emits.
    counted = measured["latencies_ms"][int(plan.rate * given.warm) :]
    return {
        **quantiles(counted),
        "trees": len(counted),
        "failed": measured["failed"],
        "latest_emit_ms": round(measured["latest_emit_ms"], 3),
    }


def main() -> None:
    parser = command.parser(__doc__, "one short round")
    parser.add_argument("--rate", type=float, default=1_000, help="trees a second")
    parser.add_argument("--seconds", type=float, help="of a round; 60 unless given")
    parser.add_argument("--warm", type=float, help="seconds before, which do not count; 10 unless given")
    parser.add_argument("--rounds", type=int, help="3 unless given")
    parser.add_argument("--ack-partitions", type=int, default=1, help="of the ack log; the product's default is 8")
    given = parser.parse_args()
    given.seconds = given.seconds or (5.0 if given.quick else 60.0)
    given.warm = given.warm or (2.0 if given.quick else 10.0)
    host = machine()
    rounds: list[dict[str, Any]] = []
    with LocalKafka(jvm="server", heap="1g") as kafka, tempfile.TemporaryDirectory() as directory:
        topics = Topics(kafka.bootstrap_servers)
        try:
            for number in range(given.rounds or (1 if given.quick else 3)):
                rounds.append(measure(topics, given, Path(directory)))
                print(f"round {number + 1}: {rounds[-1]}", file=sys.stderr, flush=True)
        finally:
            topics.close()
    row = {
        "rate": given.rate,
        "hops": 3,
        "trees": sum(each["trees"] for each in rounds),
        "failed": sum(each["failed"] for each in rounds),
        "latest_emit_ms": max(each["latest_emit_ms"] for each in rounds),
        **{f"{name}_ms": Spread.of([each[name] for each in rounds], 2) for name in QUANTILES},
    }
    settings = {
        "seconds": given.seconds,
        "warm_seconds": given.warm,
        "rounds": len(rounds),
        "ack_partitions": given.ack_partitions,
    }
    publish(report("latency", host, [row], settings), command.directory(given))


if __name__ == "__main__":
    command.run(main)

"""Half of the top rate for half an hour: does memory grow, does latency, is anything left over?

    python -m benchmarks.soak                # half an hour, as `make bench-soak` does
    python -m benchmarks.soak --minutes 5 --rate 20000
    python -m benchmarks.soak --quick

First the top rate is measured: the tracked topology (spout, transform, sink, a process each, one acker worker) at full
speed. Then a spout emits half of that by a timetable, and samples are taken of what each process holds in memory, of
the complete latency since the last sample, and of open trees. In the end the spout stops, and all trees must complete.

`drift_percent` compares the last third with the middle one, because the first shows how things warm up.
"""

import argparse
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks import harness
from benchmarks.harness import BenchmarkError
from benchmarks.processes import RunningTopology, resident_bytes
from benchmarks.topics import Topics, broker, watch
from benchmarks.topologies import STREAM, Plan, running_plan
from spout_sdk.statistics.stats import Stats
from tuple_tree.manifest import DEFAULT_ACK_PARTITIONS
from tuple_tree.names import tuples_topic

_DRAIN_SECONDS: Final = 120.0
_MIB: Final = 1 << 20
# A soak is no reason to fill a disk.
_SHORT: Final = {"retention.ms": "120000", "segment.bytes": "67108864"}


def top_rate(topics: Topics, given: argparse.Namespace) -> float:
    """Trees a second at full speed."""
    plan = Plan(f"top-{uuid.uuid4().hex[:8]}", max_spout_pending=given.pending, ack_partitions=given.ack_partitions)
    with running_plan(topics, plan) as running:
        sink, pids = tuples_topic(plan.name, "sink"), running.pids()
        longest = 5.0 if given.quick else 20.0
        return watch(topics, sink, pids, records=None, stream=STREAM, longest=longest, check=running.check).rate


def sample(seconds: float, stats: Stats, before: Stats, passed: float, pids: dict[str, list[int]]) -> dict[str, Any]:
    """What completed in the seconds that passed since the last sample, and what processes hold."""
    completed = stats.complete_latency.since(before.complete_latency)
    return {
        "at_s": round(seconds, 1),
        "trees_per_s": round((stats.acked - before.acked) / passed),
        "emitted_per_s": round((stats.emitted - before.emitted) / passed),
        "failed": sum(stats.failed.values()),
        "pending": stats.pending,
        "p50_ms": round(completed.quantile(0.5) * 1e3, 2),
        "p99_ms": round(completed.quantile(0.99) * 1e3, 2),
        "resident_mib": {name: round(sum(map(resident_bytes, each)) / _MIB, 1) for name, each in pids.items()},
    }


def drift(samples: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Growth from the middle third to the last, in percent; empty if there are too few samples."""
    third = len(samples) // 3
    if third == 0:
        return {}

    def grown(value: Callable[[dict[str, Any]], float]) -> float:
        parts = samples[third : 2 * third], samples[2 * third :]
        before, after = (statistics.median(map(value, part)) for part in parts)
        return round((after / before - 1) * 100, 1) if before else 0.0

    memory = {
        f"resident of {name}": grown(lambda sample, name=name: sample["resident_mib"][name])  # type: ignore[misc]
        for name in samples[-1]["resident_mib"]
    }
    return {**memory, "p50": grown(lambda sample: sample["p50_ms"]), "p99": grown(lambda sample: sample["p99_ms"])}


def soak(topics: Topics, running: RunningTopology, minutes: float, every: float) -> list[dict[str, Any]]:
    """The samples of so many minutes."""
    samples: list[dict[str, Any]] = []
    pids = {**running.pids(), "broker": [topics.pid]}
    began = sampled = time.monotonic()
    before = running.runner.stats()["source"]
    while (left := began + 60 * minutes - time.monotonic()) > 0:
        time.sleep(min(every, left))
        running.check()
        now, stats = time.monotonic(), running.runner.stats()["source"]
        samples.append(sample(now - began, stats, before, now - sampled, pids))
        harness.say(str(samples[-1]))
        before, sampled = stats, now
    return samples


def drained(running: RunningTopology) -> dict[str, int]:
    """Waits until all trees have completed, or two minutes have passed, and returns what became of them."""
    deadline = time.monotonic() + _DRAIN_SECONDS
    while True:
        running.check()
        stats = running.runner.stats()["source"]
        failed = sum(stats.failed.values())
        done = stats.counters.get("ended") and stats.acked + failed == stats.emitted and stats.pending == 0
        if done or time.monotonic() > deadline:
            assert running.ackers is not None
            ackers = running.ackers.stats()
            return {
                "emitted": stats.emitted,
                "acked": stats.acked,
                "failed": failed,
                "pending_at_end": stats.pending,
                "open_in_ackers_at_end": ackers.pending + ackers.orphans,
            }
        time.sleep(0.2)


def main() -> None:
    parser = harness.parser(__doc__, "half a minute")
    parser.add_argument("--minutes", type=float, help="30 unless given")
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two samples")
    parser.add_argument("--rate", type=float, help="trees a second; half of the top rate unless given")
    parser.add_argument("--pending", type=int, default=20_000, help="open trees of the spout")
    parser.add_argument("--ack-partitions", type=int, default=DEFAULT_ACK_PARTITIONS, help="of the ack log")
    given = parser.parse_args()
    minutes = given.minutes or (0.5 if given.quick else 30.0)
    host = harness.machine()
    with (
        broker({"log.retention.check.interval.ms": "10000"}) as topics,
        tempfile.TemporaryDirectory() as directory,
    ):
        rate = given.rate or top_rate(topics, given) / 2
        harness.say(f"{rate:,.0f} trees a second for {minutes:g} minutes")
        stop = Path(directory, "stop")
        plan = Plan(
            f"soak-{uuid.uuid4().hex[:8]}",
            source="endless",
            rate=rate,
            stop=str(stop),
            max_spout_pending=given.pending,
            ack_partitions=given.ack_partitions,
        )
        topics.create({tuples_topic(plan.name, bolt): 1 for bolt in plan.bolts}, _SHORT)
        with running_plan(topics, plan) as running:
            samples = soak(topics, running, minutes, given.every)
            stop.touch()
            left = drained(running)
    row = {
        "rate": round(rate),
        "top_rate": round(2 * rate),
        "minutes": round(samples[-1]["at_s"] / 60, 2),
        **left,
        "drift_percent": drift(samples),
        "samples": samples,
    }
    settings = {"max_spout_pending": given.pending, "ack_partitions": given.ack_partitions}
    harness.publish("soak", host, [row], settings, harness.directory(given))
    if row["pending_at_end"] or row["failed"]:
        raise BenchmarkError(f"{row['pending_at_end']} trees were pending at the end, {row['failed']} had failed")


if __name__ == "__main__":
    harness.run(main)

"""Half of the top rate for half an hour: does memory grow, does latency, is anything left over?

    python -m benchmarks.soak                # half an hour, as `make bench-soak` does
    python -m benchmarks.soak --minutes 5 --rate 20000
    python -m benchmarks.soak --quick

First the top rate is found: the tracked topology (spout, transform, sink, a process each, one acker worker, the
embedded broker) as fast as it goes, for a while. Then a spout emits half of that a second by a timetable, and every few
seconds it is noted what each process holds in memory, the quantiles of the complete latency of the trees that completed
meanwhile, how many were open, and how many were emitted a second, which shows whether the spout kept its timetable. In
the end the spout is told to stop, and all trees must complete. Ctrl-C ends the soak early and tells what was measured
so far.

`drift` compares the last third with the middle one, because the first shows how things warm up: resident memory of each
process, and latency, in percent.
"""

import argparse
import signal
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final

from benchmarks import command, running
from benchmarks.broker_topics import Topics, watch
from benchmarks.errors import BenchmarkError
from benchmarks.plans import STREAM, Plan
from benchmarks.processes import resident_bytes
from benchmarks.results import machine, publish, report
from local_kafka import LocalKafka
from spout_sdk.statistics.stats import Stats
from tuple_tree.names import tuples_topic

_DRAIN_SECONDS: Final = 120.0
_MIB: Final = 1 << 20

# What is looked at may be half a second old, and a soak is no reason to fill a disk.
_SHORT: Final = {"retention.ms": "120000", "segment.bytes": "67108864"}


def top_rate(topics: Topics, seconds: float, pending: int, ack_partitions: int) -> float:
    """Trees a second, as fast as it goes."""
    plan = Plan(f"top-{uuid.uuid4().hex[:8]}", max_spout_pending=pending, ack_partitions=ack_partitions)
    running.make_topics(topics, plan)
    with running.topology(topics.servers, plan) as ours:
        watched = tuples_topic(plan.name, "sink")
        return watch(topics, watched, ours.pids(), records=None, stream=STREAM, longest=seconds, check=ours.check).rate


class Soak:
    """One topology under a steady load.

    Args:
        running_: the topology.
        broker: the broker's process id.
        rate: trees a second.
    """

    def __init__(self, running_: running.Running, broker: int, rate: float) -> None:
        self._running = running_
        self._pids = {**running_.pids(), "broker": [broker]}
        self._rate = rate
        self._began = time.monotonic()
        self._before = running_.runner.stats()["source"]
        self._looked = self._began
        self.samples: list[dict[str, Any]] = []

    def sample(self) -> dict[str, Any]:
        """Notes how things are, and what completed since the last time."""
        now = time.monotonic()
        stats = self._running.runner.stats()["source"]
        completed = stats.complete_latency.since(self._before.complete_latency)
        sample = {
            "at_s": round(now - self._began, 1),
            "trees_per_s": round((stats.acked - self._before.acked) / (now - self._looked)),
            "emitted_per_s": round((stats.emitted - self._before.emitted) / (now - self._looked)),
            "failed": sum(stats.failed.values()),
            "pending": stats.pending,
            "p50_ms": round(completed.quantile(0.5) * 1e3, 2),
            "p99_ms": round(completed.quantile(0.99) * 1e3, 2),
            "resident_mib": {
                name: round(sum(map(resident_bytes, pids)) / _MIB, 1) for name, pids in self._pids.items()
            },
        }
        self._before, self._looked = stats, now
        self.samples.append(sample)
        return sample

    @property
    def stats(self) -> Stats:
        """The spout's."""
        return self._running.runner.stats()["source"]


def drift(samples: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Growth from the middle third to the last, in percent; empty if there are too few samples."""
    third = len(samples) // 3
    if third == 0:
        return {}
    middle, last = samples[third : 2 * third], samples[2 * third :]

    def grown(value: Callable[[dict[str, Any]], float]) -> float:
        before, after = (statistics.median(map(value, part)) for part in (middle, last))
        return round((after / before - 1) * 100, 1) if before else 0.0

    found = {
        f"resident of {name}": grown(lambda sample, name=name: sample["resident_mib"][name])  # type: ignore[misc]
        for name in last[0]["resident_mib"]
    }
    return {**found, "p50": grown(lambda sample: sample["p50_ms"]), "p99": grown(lambda sample: sample["p99_ms"])}


def run(topics: Topics, broker: int, given: argparse.Namespace, interrupted: list[int]) -> dict[str, Any]:
    """Finds the top rate, soaks, drains."""
    top = 2 * given.rate if given.rate else top_rate(topics, given.top_seconds, given.pending, given.ack_partitions)
    rate = given.rate or top / 2
    print(f"{rate:,.0f} trees a second for {given.minutes:g} minutes", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as directory:
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
        running.make_topics(topics, plan)
        with running.topology(topics.servers, plan) as ours:
            soak = Soak(ours, broker, rate)
            ends = time.monotonic() + given.minutes * 60
            while time.monotonic() < ends and not interrupted:
                time.sleep(min(given.every, max(0.0, ends - time.monotonic())))
                ours.check()
                print(soak.sample(), file=sys.stderr, flush=True)
            stop.touch()
            left = _drained(ours, soak)
    return {
        "rate": round(rate),
        "top_rate": round(top),
        "minutes": round(soak.samples[-1]["at_s"] / 60, 2) if soak.samples else 0.0,
        "interrupted": bool(interrupted),
        **left,
        "drift_percent": drift(soak.samples),
        "samples": soak.samples,
    }


def _drained(ours: running.Running, soak: Soak) -> dict[str, int]:
    """Waits until all trees have completed; what has not after a while is told."""
    deadline = time.monotonic() + _DRAIN_SECONDS
    while True:
        ours.check()
        stats = soak.stats
        failed = sum(stats.failed.values())
        done = stats.counters.get("ended") and stats.acked + failed == stats.emitted and stats.pending == 0
        if done or time.monotonic() > deadline:
            ackers = ours.ackers.stats() if ours.ackers is not None else None
            return {
                "emitted": stats.emitted,
                "acked": stats.acked,
                "failed": failed,
                "pending_at_end": stats.pending,
                "open_in_ackers_at_end": ackers.pending + ackers.orphans if ackers is not None else 0,
            }
        time.sleep(0.2)


def main() -> None:
    parser = command.parser(__doc__, "half a minute")
    parser.add_argument("--minutes", type=float, help="30 unless given")
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two samples")
    parser.add_argument("--rate", type=float, help="trees a second; half of the top rate unless given")
    parser.add_argument("--top-seconds", type=float, help="for which the top rate is looked for; 20 unless given")
    parser.add_argument("--pending", type=int, default=20_000, help="open trees of the spout")
    parser.add_argument("--ack-partitions", type=int, default=1, help="of the ack log; the product's default is 8")
    given = parser.parse_args()
    given.minutes = given.minutes or (0.5 if given.quick else 30.0)
    given.top_seconds = given.top_seconds or (5.0 if given.quick else 20.0)
    interrupted: list[int] = []

    def on_interrupt(number: int, _frame: FrameType | None) -> None:
        if interrupted:
            raise KeyboardInterrupt
        interrupted.append(number)
        print("stopping; once more ends at once", file=sys.stderr, flush=True)

    signal.signal(signal.SIGINT, on_interrupt)
    host = machine()
    with LocalKafka(properties={"log.retention.check.interval.ms": "10000"}, jvm="server", heap="1g") as kafka:
        topics = Topics(kafka.bootstrap_servers)
        try:
            row = run(topics, kafka.pid or 0, given, interrupted)
        finally:
            topics.close()
    settings = {"max_spout_pending": given.pending, "ack_partitions": given.ack_partitions}
    publish(report("soak", host, [row], settings), command.directory(given))
    if row["pending_at_end"] or row["failed"]:
        raise BenchmarkError(f"{row['pending_at_end']} trees were pending at the end, {row['failed']} had failed")


if __name__ == "__main__":
    command.run(main)

"""Latency of `Client.process` at 1,000 calls a second, compared with that of the trees of its messages.

    python -m benchmarks.process_call
    python -m benchmarks.process_call --rate 200 --seconds 20
    python -m benchmarks.process_call --quick

A `KafkaSpout`, a bolt that answers, an acker worker and the client have a process each. Calls begin by a timetable, and
count from the *intended* begin. The latency of a tree is that from the first emit of its message to its end, by the
outcome, in whole milliseconds: `added_ms` is the rest of a call, `source_ms` from its begin to the emit, and
`outcome_ms` from the end of the tree to the return of the call. All clocks are that of the machine. `cpu_us` is the CPU
time of the process of the client for each call, in microseconds.
"""

import asyncio
import os
import time
from functools import partial
from typing import Any, Final

from benchmarks import harness
from benchmarks.harness import Benchmark, BenchmarkError, Spread
from benchmarks.latency import quantiles
from benchmarks.processes import running_topology
from benchmarks.topics import Topics, broker
from spout_sdk import BasicBolt, BasicCollector, Client, KafkaSpout, Topology, TopologyBuilder, Tuple, load_topology

GUARANTEE: Final = "BENCHMARK_GUARANTEE"
_NAME: Final = "process-call"
_PARTITIONS: Final = 4
_REFERENCE: Final = "benchmarks.process_call:topology"
_TIMEOUT_SECONDS: Final = 60.0
_KINDS: Final = ("process_ms", "tree_ms", "added_ms", "source_ms", "outcome_ms")


class Answer(BasicBolt):
    answers = True

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        collector.answer(tuple_["value"])


def topology() -> Topology:
    """The topology of the round, whose name is in the environment."""
    name = os.environ[GUARANTEE]
    builder = TopologyBuilder(f"{_NAME}-{name}".replace("_", "-"), guarantee=name)  # type: ignore[arg-type]
    builder.set_spout("calls", KafkaSpout(f"{_NAME}.calls"))
    builder.set_bolt("answer", Answer).shuffle_grouping("calls")
    return builder.build()


def measure(topics: Topics, guarantee: str, rate: float, warm: float, seconds: float) -> dict[str, list[float]]:
    """A round; its first `warm` seconds do not count. Returns the latencies of each kind, in milliseconds."""
    topics.create({f"{_NAME}.calls": _PARTITIONS})
    try:
        with running_topology(topics, _REFERENCE, {GUARANTEE: guarantee}) as running:
            found = asyncio.run(_calls(load_topology(_REFERENCE), topics.kafka, rate, warm, seconds))
            running.check()
            return found
    finally:
        topics.delete(_NAME)


async def _calls(
    built: Topology, kafka: dict[str, Any], rate: float, warm: float, seconds: float
) -> dict[str, list[float]]:
    first, count = int(rate * warm), int(rate * (warm + seconds))
    found: dict[str, list[float]] = {kind: [] for kind in _KINDS}

    async def call(client: Client, number: int, began_ms: float) -> None:
        text = f"call {number}"
        outcome = await client.process(text, key=text, timeout=_TIMEOUT_SECONDS)
        now_ms = _wall_ms()
        if outcome.answer != text:
            raise BenchmarkError(f"{text} was answered with {outcome.answer}")
        if number >= first:
            tree = outcome.end - outcome.first_emit
            whole = now_ms - began_ms
            parts = whole, tree, whole - tree, outcome.first_emit - began_ms, now_ms - outcome.end
            for kind, value in zip(_KINDS, parts, strict=True):
                found[kind].append(value)

    async with Client(built, kafka, max_open=max(100, round(10 * rate))) as client, asyncio.TaskGroup() as calls:
        await client.process("call 0", timeout=_TIMEOUT_SECONDS)  # the topology reads
        began, began_ms, used = time.monotonic(), _wall_ms(), time.process_time()
        for number in range(count):
            if (wait := began + number / rate - time.monotonic()) > 0:
                await asyncio.sleep(wait)
            calls.create_task(call(client, number, began_ms + 1_000 * number / rate))
    found["cpu_us"] = [(time.process_time() - used) / count * 1_000_000]
    return found


def _wall_ms() -> float:
    return time.time_ns() / 1_000_000


def main() -> None:
    bench = Benchmark("process_call", __doc__, rounds=3)
    bench.option("--rate", 1_000.0, help="calls a second")
    bench.option("--seconds", 30.0, quick=5.0, help="of a round")
    bench.option("--warm", 10.0, quick=2.0, help="seconds before, which do not count")
    given, guarantees = bench.start(), ("at_least_once", "exactly_once")
    with broker() as topics:
        timing = given.rate, given.warm, given.seconds
        runs = {each: partial(measure, topics, each, *timing) for each in guarantees}
        results = harness.in_turn(runs, bench.rounds, shown=lambda result: str(quantiles(result["process_ms"])))
    rows = [
        {
            "guarantee": guarantee,
            "calls": sum(len(each["process_ms"]) for each in of),
            "cpu_us": Spread.of([each["cpu_us"][0] for each in of], 0),
            **{kind: harness.spreads([quantiles(each[kind]) for each in of], 1) for kind in _KINDS},
        }
        for guarantee, of in results.items()
    ]
    bench.publish(rows, settings={"partitions": _PARTITIONS})


if __name__ == "__main__":
    harness.run(main)

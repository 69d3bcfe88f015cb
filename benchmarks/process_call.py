"""Latency of `Client.process` at 1,000 calls a second, compared with that of the trees of its messages.

    python -m benchmarks.process_call
    python -m benchmarks.process_call --rate 200 --seconds 20
    python -m benchmarks.process_call --quick

A `KafkaSpout`, a bolt that answers, an acker worker and the client have a process each. Calls begin by a timetable, and
count from the *intended* begin. The latency of a tree is that from the first emit of its message to its end, by the
outcome, in whole milliseconds; `added_ms` is the rest of a call. `cpu_us` is the CPU time of the process of the client
for each call.
"""

import asyncio
import time
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from benchmarks import harness
from benchmarks.harness import Benchmark, BenchmarkError, Plan, Spread
from benchmarks.latency import quantiles
from benchmarks.processes import running_topology
from benchmarks.topics import Topics, broker
from spout_sdk import BasicBolt, BasicCollector, KafkaSpout, Topology, TopologyBuilder, Tuple, load_topology
from spout_sdk.client import Client
from tuple_tree.manifest import Guarantee

_NAME: Final = "process-call"
_PARTITIONS: Final = 4
_REFERENCE: Final = "benchmarks.process_call:topology"
_TIMEOUT_SECONDS: Final = 60.0
_KINDS: Final = ("process_ms", "tree_ms", "added_ms")


@dataclass(frozen=True, slots=True)
class CallPlan(Plan):
    """The settings of a run."""

    guarantee: Guarantee


class Answer(BasicBolt):
    answers = True

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        collector.answer(tuple_["value"])


def topology() -> Topology:
    guarantee = CallPlan.from_environment().guarantee
    builder = TopologyBuilder(f"{_NAME}-{guarantee}".replace("_", "-"), guarantee=guarantee)
    builder.set_spout("calls", KafkaSpout(f"{_NAME}.calls"))
    builder.set_bolt("answer", Answer).shuffle_grouping("calls")
    return builder.build()


def measure(topics: Topics, guarantee: Guarantee, rate: float, warm: float, seconds: float) -> dict[str, list[float]]:
    """A round; its first `warm` seconds do not count. Returns the latencies of each kind, in milliseconds."""
    topics.create({f"{_NAME}.calls": _PARTITIONS})
    try:
        with running_topology(topics, _REFERENCE, CallPlan(guarantee).environment) as running:
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

    async def call(client: Client, number: int, began: float) -> None:
        text = f"call {number}"
        outcome = await client.process(text, key=text, timeout=_TIMEOUT_SECONDS)
        whole, tree = (time.monotonic() - began) * 1_000, outcome.end - outcome.first_emit
        if outcome.answer != text:
            raise BenchmarkError(f"{text} was answered with {outcome.answer}")
        if number >= first:
            for kind, value in zip(_KINDS, (whole, tree, whole - tree), strict=True):
                found[kind].append(value)

    async with Client(built, kafka, max_open=max(100, round(10 * rate))) as client, asyncio.TaskGroup() as calls:
        await client.process("call 0", timeout=_TIMEOUT_SECONDS)  # the topology reads
        began, used = time.monotonic(), time.process_time()
        for number in range(count):
            if (early := began + number / rate - time.monotonic()) > 0:
                await asyncio.sleep(early)
            calls.create_task(call(client, number, began + number / rate))
    found["cpu_us"] = [(time.process_time() - used) / count * 1_000_000]
    return found


def main() -> None:
    bench = Benchmark("process_call", __doc__, rounds=3)
    bench.option("--rate", 1_000.0, help="calls a second")
    bench.option("--seconds", 30.0, quick=5.0, help="of a round")
    bench.option("--warm", 10.0, quick=2.0, help="seconds before, which do not count")
    given = bench.start()
    guarantees: tuple[Guarantee, ...] = ("at_least_once", "exactly_once")
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
    bench.publish(rows, partitions=_PARTITIONS)


if __name__ == "__main__":
    harness.run(main)

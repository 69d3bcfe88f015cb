"""A window of a day over all events of a topic, read at full speed: is the memory flat, and is each event counted once?

    python -m benchmarks.windows
    python -m benchmarks.windows --events 1000000 --kills 0 --codec arrow
    python -m benchmarks.windows --quick

A message has a hundred events of a thousand keys; a bolt emits them, and an `AggregateBolt` in two processes counts and
adds them in one window of 24 hours for each key, which is open until the end. Processes of it are killed meanwhile.
Memory is the resident memory of the larger process of the two, after each tenth of the events. `events_per_second` are
from when all processes are ready to the last ack, the kills included.
"""

import itertools
import json
import math
import os
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
from confluent_kafka import Message

from benchmarks import harness
from benchmarks.harness import Benchmark, BenchmarkError
from benchmarks.plan import EnvironmentPlan
from benchmarks.processes import resident_bytes, running_ackers
from benchmarks.topics import Record, Topics, broker
from kafka_clients.log_reader import LogReader
from spout_sdk import (
    AggregateBolt,
    BasicBolt,
    BasicCollector,
    KafkaSpout,
    Stream,
    Topology,
    TopologyBuilder,
    TopologyRunner,
    Tuple,
    count,
    declare,
    greatest,
    total,
    tumbling,
)
from tuple_tree.names import results_topic

EVENTS: Final = 5_000_000
KEYS: Final = 1_000
KILLS: Final = 3
DAY_MS: Final = 86_400_000
_START_MS: Final = 20_700 * DAY_MS
_OF_MESSAGE: Final = 100
_PARTITIONS: Final = 2
_STEP: Final = 7  # between the keys of two events
_QUICK_EVENTS: Final = 300_000
_BOLT: Final = "per-day"
_FIELDS: Final = {"key": str, "at": int, "number": int}
_CODECS: Final = ("arrow", "avro")
_PENDING: Final = 1_000
_READY_SECONDS: Final = 120.0
_PATIENCE_SECONDS: Final = 180.0
_SAMPLE_SECONDS: Final = 1.0
_EARLY: Final = 3
_MOST_GROWTH: Final = 1.25
"""How much greater memory may be at the end than in the first three tenths of the events."""


@dataclass(frozen=True, slots=True)
class Plan(EnvironmentPlan):
    """A round: the name of the topology, how many events there are, and the codec of their stream."""

    name: str
    events: int
    codec: str


class Events(BasicBolt):
    """Emits the events of a message; that of the end has one for each key, a day later."""

    streams: ClassVar[Sequence[Stream]] = (declare(_FIELDS),)

    def __init__(self, events: int) -> None:
        self.events = events
        self.keys = [f"key-{number}" for number in range(KEYS)]

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        first = int(tuple_["value"])
        if first == self.events:
            for key in self.keys:
                collector.emit((key, _START_MS + DAY_MS, 0))
            return
        for number in range(first, first + _OF_MESSAGE):
            collector.emit((self.keys[number * _STEP % KEYS], _START_MS + number * DAY_MS // self.events, number))


class AvroEvents(Events):
    """The same, a tuple at a time."""

    streams = (declare(_FIELDS, codec="avro"),)


class PerDay(AggregateBolt):
    """The window."""

    window = tumbling(seconds=DAY_MS // 1_000).with_timestamp_field("at")
    aggregates = {"events": count(), "sum": total("number"), "last": greatest("number")}
    streams = (declare({"key": str, "start": int, "end": int, "events": int, "sum": int, "last": int}),)


def topology() -> Topology:
    plan = Plan.from_environment()
    builder = TopologyBuilder(plan.name, max_spout_pending=_PENDING, message_timeout=120.0)
    builder.set_spout("messages", KafkaSpout(f"{plan.name}.source"))
    events = Events if plan.codec == "arrow" else AvroEvents
    builder.set_bolt("events", lambda: events(plan.events)).shuffle_grouping("messages")
    builder.set_bolt(_BOLT, PerDay, tasks=2).fields_grouping("events", "key")
    return builder.build()


def fill(topics: Topics, plan: Plan) -> None:
    """Writes all messages."""
    topic = f"{plan.name}.source"
    topics.create({topic: _PARTITIONS})
    starts = enumerate(range(0, plan.events, _OF_MESSAGE))
    messages = (Record(str(first).encode(), number % _PARTITIONS) for number, first in starts)
    ends = (Record(str(plan.events).encode(), partition) for partition in range(_PARTITIONS))
    topics.write(topic, itertools.chain(messages, ends), {"linger.ms": 20})


def wanted(events: int) -> dict[str, list[int]]:
    """The results: events, sum, and the last, by key."""
    numbers = np.arange(events)
    keys = numbers * _STEP % KEYS
    counts, last = np.bincount(keys, minlength=KEYS), np.zeros(KEYS, np.int64)
    sums = np.zeros(KEYS, np.int64)
    np.add.at(sums, keys, numbers)
    np.maximum.at(last, keys, numbers)
    return {f"key-{key}": [int(counts[key]), int(sums[key]), int(last[key])] for key in range(KEYS)}


def results(topics: Topics, name: str) -> tuple[dict[str, list[int]], int]:
    """The results of the first day by key, and how many records there are of it."""
    found: dict[str, list[int]] = {}
    times: Counter[str] = Counter()

    def take(message: Message) -> None:
        value = json.loads(message.value() or b"")
        if value["start"] == _START_MS:
            times[value["key"]] += 1
            found[value["key"]] = [value["events"], value["sum"], value["last"]]

    reader, topic = LogReader(topics.kafka), results_topic(name, _BOLT)
    try:
        reader.read(topic, reader.offset_ranges([(topic, task) for task in range(2)]), take)
    finally:
        reader.close()
    return found, times.total()


def measure(topics: Topics, plan: Plan, kills: int) -> dict[str, Any]:
    """Runs it; returns the figures."""
    fill(topics, plan)
    os.environ.update(plan.environment)
    built = topology()
    topics.create_for(built.manifest)
    kafka = {**topics.kafka, "session.timeout.ms": 6_000}
    memory: dict[int, float] = {}  # tenth of the events → MB
    killed = 0
    with (
        running_ackers(topics, plan.name, built.manifest.ack_partitions) as ackers,
        TopologyRunner("benchmarks.windows:topology", kafka, {_BOLT: 2}) as runner,
    ):
        if not runner.wait_ready(_READY_SECONDS):
            raise BenchmarkError(f"the topology was not ready within {_READY_SECONDS:g} s")
        began = ended = time.monotonic()
        messages, done = plan.events // _OF_MESSAGE + _PARTITIONS, 0
        while done < messages:
            ackers.check()
            runner.wait(0)
            time.sleep(_SAMPLE_SECONDS)
            acked = runner.stats()["messages"].acked
            if acked > done:
                done, ended = acked, time.monotonic()
            elif time.monotonic() - ended > _PATIENCE_SECONDS:
                raise BenchmarkError(f"{done:,} messages are done, and no more for {_PATIENCE_SECONDS:g} s")
            pids = runner.pids()[_BOLT]
            if (tenth := 10 * done // messages) not in memory and pids:
                memory[tenth] = max(resident_bytes(pid) for pid in pids) / 1e6
                harness.say(f"{done * _OF_MESSAGE:,} events, {memory[tenth]:.0f} MB")
            if killed < kills and done > (killed + 1) * messages // (kills + 1) and pids:
                harness.say(f"killed {runner.kill(_BOLT)}")
                killed += 1
        counters = runner.stats()[_BOLT].counters
        deadline = time.monotonic() + _PATIENCE_SECONDS
        right = wanted(plan.events)
        while (found := results(topics, plan.name))[0] != right:
            if time.monotonic() > deadline:
                missing = sum(found[0].get(key) != value for key, value in right.items())
                raise BenchmarkError(f"{missing} of {KEYS} keys have other results than all events: {counters}")
            time.sleep(_SAMPLE_SECONDS)
    if found[1] != KEYS:
        raise BenchmarkError(f"{KEYS} keys have {found[1]} results: some were written twice")
    # The last sample is never missing; a quick run may have no other.
    early = max((mb for tenth, mb in memory.items() if tenth <= _EARLY), default=math.inf)
    if memory[max(memory)] > _MOST_GROWTH * early:
        raise BenchmarkError(f"the memory is not flat, MB by tenth of the events: {memory}")
    return {
        "codec": plan.codec,
        "events": plan.events,
        "kills": killed,
        "events_per_second": round(plan.events / (ended - began)),
        "mb_by_tenth": [round(memory[tenth]) for tenth in sorted(memory)],
        "late": counters.get("late tuples", 0),
    }


def main() -> None:
    bench = Benchmark("windows", __doc__, quick=f"with {_QUICK_EVENTS:,} events", rounds=1)
    bench.option("--events", EVENTS, quick=_QUICK_EVENTS, help=f"a multiple of {KEYS:,}")
    bench.option("--kills", KILLS, help="of processes of the bolt")
    bench.option("--codec", [*_CODECS], nargs="+", type=str, choices=_CODECS, help="of the events")
    given = bench.start()
    with broker() as topics:
        plans = [Plan(f"windows-{uuid.uuid4().hex[:8]}", given.events, codec) for codec in given.codec]
        rows = [measure(topics, plan, given.kills) for plan in plans for _ in range(bench.rounds)]
    bench.publish(rows, settings={"keys": KEYS, "max_spout_pending": _PENDING})


if __name__ == "__main__":
    harness.run(main)

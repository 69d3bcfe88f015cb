"""Microseconds a tuple inside the SDK, by stage, without Kafka.

    python -m benchmarks.sdk
    python -m benchmarks.sdk --tuples 200000 --rounds 11
    python -m benchmarks.sdk --quick

A task reads prepared packs of tuples, and a sink drops what it sends, so only our Python is timed: CPU time of this
process, the median of several rounds, garbage collection included. Stages that cannot be timed by themselves are
differences: a bolt that only acks against one that does nothing, one that emits and acks against one that only acks.
`bolt` is the whole of a `BasicBolt` that emits one tuple for each; it includes the packing of tuples and of ack
batches, and so do `ack`, `emit` and `spout emit`.
"""

import gc
import math
import os
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from benchmarks import harness
from benchmarks.harness import Benchmark
from benchmarks.topics import payloads
from spout_sdk import (
    BasicBolt,
    BasicCollector,
    Bolt,
    OutputCollector,
    Spout,
    SpoutCollector,
    TaskContext,
    TopologyBuilder,
    Tuple,
    declare,
)
from spout_sdk.api.components import AnyBolt
from spout_sdk.bolts.bolt_task import BoltTask
from spout_sdk.records import MadeRecord, Sending, TaskEnvironment
from spout_sdk.spouts.spout_task import SpoutTask
from spout_sdk.statistics.stats import Counters
from tuple_tree.anchors import AnchorColumns
from tuple_tree.edges import new_seed
from tuple_tree.ids import random_column
from tuple_tree.manifest import Guarantee
from tuple_tree.messages import NoticeBatch, decode_ack_batch, encode_notice_batch
from tuple_tree.payloads import encode_tuples, payload_codec

STREAM: Final = declare({"payload": bytes})
READ: Final = 500  # tuples of a record, and between two turns of the loop


class NullSink:
    """Drops what it is sent, and reports it delivered at once; keeps ack batches, which have the roots of the trees."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []

    def send(self, *_: Any) -> None:
        pass

    def send_reported(self, *record: *Sending) -> None:
        self.batches.append(record[3] or b"")
        record[-1](None, None)

    def send_record(self, *record: *Sending) -> None:
        record[-1](None, None)

    def send_records(self, *_: Any) -> None:
        pass

    def flush_acks(self, _seconds: float) -> int:
        return 0


class Source(Spout):
    streams = (STREAM,)

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        self.collector = collector
        self.values = (payloads(1)[0],)

    def next_tuple(self) -> None:
        self.collector.emit(self.values, message_id=1)


class Nothing(Bolt):
    streams = (STREAM,)

    def execute(self, tuple_: Tuple) -> None:
        pass


class Acks(Bolt):
    streams = (STREAM,)

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self.collector = collector

    def execute(self, tuple_: Tuple) -> None:
        self.collector.ack(tuple_)


class EmitsAndAcks(Acks):
    def execute(self, tuple_: Tuple) -> None:
        self.collector.emit(tuple_.values, anchors=tuple_)
        self.collector.ack(tuple_)


class Sink(BasicBolt):
    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        pass


class Basic(BasicBolt):
    streams = (STREAM,)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        collector.emit(tuple_.values)


def _topology(guarantee: Guarantee, bolt: type[AnyBolt], pending: int) -> Any:
    builder = TopologyBuilder("micro", guarantee=guarantee, max_spout_pending=pending)
    builder.set_spout("source", Source)
    builder.set_bolt("bolt", bolt).shuffle_grouping("source")
    if bolt.streams:
        builder.set_bolt("last", Sink).shuffle_grouping("bolt")
    return builder.build()


def _environment(sink: NullSink) -> TaskEnvironment:
    return TaskEnvironment(sink, Counters(), time.monotonic, os.urandom)


def _timed(tuples: int, work: Callable[[], None]) -> float:
    """Microseconds of CPU time a tuple."""
    gc.collect()
    began = time.process_time()
    work()
    return (time.process_time() - began) / tuples * 1e6


def bolt(guarantee: Guarantee, kind: type[AnyBolt], tuples: int) -> float:
    """A bolt's task, from the record to the ack batch; the tuples are rounded up to whole records."""
    task = BoltTask(_topology(guarantee, kind, 1), "bolt", 0, _environment(NullSink()))
    task.open_session()
    task.prepare()
    pack = encode_tuples(payload_codec(STREAM), [(payload,) for payload in payloads(READ)])

    def headers() -> list[Any]:
        """One anchor for each tuple, of other roots each time."""
        anchors = [] if guarantee == "at_most_once" else AnchorColumns(random_column(READ), None, new_seed()).headers()
        return [*anchors, ("source", b"source/default")]

    records = [MadeRecord("inbox", 0, offset, pack, headers()) for offset in range(math.ceil(tuples / READ))]
    clock = time.monotonic

    def work() -> None:
        for record in records:
            task.execute(iter(task.read(record)), math.inf)
            task.tick(clock())
        task.flush()

    return _timed(READ * len(records), work)


def spout(tuples: int) -> tuple[float, float]:
    """A spout's task: emitting a tuple, and handling the notice that its tree is complete."""
    sink = NullSink()
    task = SpoutTask(_topology("at_least_once", Acks, tuples + 1), "source", 0, _environment(sink))
    task.open_session()
    task.open()
    clock = time.monotonic

    def emit() -> None:
        for _ in range(tuples // READ):
            task.emit(READ)
            task.tick(clock())
        task.flush()

    emitting = _timed(tuples, emit)
    roots = np.concatenate([decode_ack_batch(batch).init_roots for batch in sink.batches])
    notices = [
        MadeRecord(
            "notices", 0, start, encode_notice_batch(NoticeBatch(0, start, acked_roots=roots[start : start + READ]))
        )
        for start in range(0, len(roots), READ)
    ]

    def handle() -> None:
        for notice in notices:
            task.handle(notice)

    return emitting, _timed(tuples, handle)


def _round(tuples: int) -> dict[str, float]:
    kinds: tuple[type[AnyBolt], ...] = (Nothing, Acks, EmitsAndAcks, Basic, Sink)
    nothing, acks, emits, basic, last = (bolt("at_least_once", kind, tuples) for kind in kinds)
    emitting, handling = spout(tuples)
    return {
        "read, decode and execute": nothing,
        "ack": acks - nothing,
        "emit": emits - acks,
        "bolt": basic,
        "last bolt": last,
        "spout emit": emitting,
        "notice": handling,
    }


def main() -> None:
    bench = Benchmark("sdk", __doc__, quick="few and short rounds", rounds=7)
    bench.option("--tuples", 100_000, quick=20_000, help="of a round")
    tuples = bench.start().tuples
    rounds = harness.in_turn({"stages": lambda: _round(tuples)}, bench.rounds)["stages"]
    bench.publish([{"stage": stage, "tracked_us": of} for stage, of in harness.spreads(rounds, 3).items()])


if __name__ == "__main__":
    harness.run(main)

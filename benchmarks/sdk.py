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
import itertools
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
from tuple_tree.entries import LARGEST_BATCH as FULL
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

    def send_records(self, topic: str, keys: Any, values: Any, headers: Any, reported: Any) -> None:
        for at, value in enumerate(values):
            key, each = None if keys is None else keys[at], [] if headers is None else headers[at]
            self.send_record(topic, -1, key, value, each, reported)

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


def record_headers(source: bytes, tuples: int, ack_partitions: int | None) -> Callable[[], list[Any]]:
    """Headers of a record of tuples with one anchor each, other roots each time; untracked without ack partitions.

    As with a busy task of a spout, the roots of 4,096 tuples in a row share an ack partition (ADR 20).
    """
    if ack_partitions is None:
        return lambda: [("source", source)]
    drawn = itertools.count(0, tuples)

    def headers() -> list[Any]:
        roots = random_column(tuples).copy()
        sticky = next(drawn) // FULL % ack_partitions
        roots -= roots % np.uint64(ack_partitions)
        roots += np.uint64(sticky)
        return [*AnchorColumns(roots, None, new_seed()).headers(), ("source", source)]

    return headers


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
    headers = record_headers(b"source/default", READ, None if guarantee == "at_most_once" else 1)
    pack = encode_tuples(payload_codec(STREAM), [(payload,) for payload in payloads(READ)])
    records = [MadeRecord("inbox", 0, offset, pack, headers()) for offset in range(math.ceil(tuples / READ))]
    clock = time.monotonic

    def work() -> None:
        for record in records:
            task.execute(iter(task.read(record)), math.inf)
            task.tick(clock())
        task.flush()

    return _timed(READ * len(records), work)


def spout(guarantee: Guarantee, tuples: int) -> tuple[float, float]:
    """A spout's task: emitting a tuple, and handling the notice that its tree is complete."""
    sink = NullSink()
    task = SpoutTask(_topology(guarantee, Acks, tuples + 1), "source", 0, _environment(sink))
    task.open_session()
    task.open()
    clock = time.monotonic

    def emit() -> None:
        for _ in range(tuples // READ):
            task.emit(READ)
            task.tick(clock())
        task.flush()

    emitting = _timed(tuples, emit)
    # Untracked there are none.
    began = [decode_ack_batch(batch).init_roots for batch in sink.batches]
    roots = np.concatenate([np.empty(0, dtype=np.uint64), *began])
    notices = []
    for start in range(0, len(roots), READ):
        notice = NoticeBatch(acks_partition=0, acks_offset=start, acked_roots=roots[start : start + READ])
        notices.append(MadeRecord("notices", 0, start, encode_notice_batch(notice)))

    def handle() -> None:
        for notice in notices:
            task.handle(notice)

    return emitting, _timed(tuples, handle)


def _round(guarantee: Guarantee, tuples: int) -> dict[str, float]:
    nothing = bolt(guarantee, Nothing, tuples)
    acks = bolt(guarantee, Acks, tuples)
    emits = bolt(guarantee, EmitsAndAcks, tuples)
    emitting, handling = spout(guarantee, tuples)
    return {
        "read, decode and execute": nothing,
        "ack": acks - nothing,
        "emit": emits - acks,
        "bolt": bolt(guarantee, Basic, tuples),
        "last bolt": bolt(guarantee, Sink, tuples),
        "spout emit": emitting,
        "notice": handling,
    }


def main() -> None:
    bench = Benchmark("sdk", __doc__, quick="few and short rounds", rounds=7)
    bench.option("--tuples", 100_000, quick=20_000, help="of a round")
    given = bench.start()
    taken = harness.in_turn(
        {
            "untracked": lambda: _round("at_most_once", given.tuples),
            "tracked": lambda: _round("at_least_once", given.tuples),
        },
        bench.rounds,
        shown=lambda stages: f"{stages['bolt']:.2f} us a tuple of a bolt",
    )
    spreads = {f"{side}_us": harness.spreads(rounds, 3) for side, rounds in taken.items()}
    stages = [*spreads["tracked_us"]]
    bench.publish([{"stage": stage, **{side: of[stage] for side, of in spreads.items()}} for stage in stages])


if __name__ == "__main__":
    harness.run(main)

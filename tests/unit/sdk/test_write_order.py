"""The order in which a bolt's task writes: all children of an input are in the log before the ack of that input."""

import random
from collections import defaultdict
from collections.abc import Sequence
from itertools import cycle
from typing import Any, ClassVar

import pytest

from spout_sdk import (
    ArrowBolt,
    ArrowCollector,
    BasicBolt,
    BasicCollector,
    BatchBolt,
    Bolt,
    OutputCollector,
    Stream,
    TaskContext,
    TaskHook,
    TopologyBuilder,
    Tuple,
    Window,
    WindowedBolt,
    declare,
    tumbling,
)
from tests.components import Sink, source
from tests.packs import tuples_of, under_seed
from tests.seeds import each_seed
from tests.unit.sdk.memory import Bench, LogSink, Sent, execute
from tuple_tree.anchors import SOURCE_HEADER

CHILD = declare({"n": int})
RAW = declare(["raw"], name="raw", codec="bytes")
Numbers = source(CHILD)


def children(n: int) -> range:
    """Raises for one in eleven inputs."""
    if n % 11 == 10:
        raise ZeroDivisionError(n)
    return range(n % 4)


class Manual(Bolt):
    """Acks in two orders: an input at once, or with the next."""

    streams: ClassVar[Sequence[Stream]] = (CHILD, RAW)

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self.collector, self.waiting = collector, list[Tuple]()

    def execute(self, tuple_: Tuple) -> None:
        for n in children(tuple_["n"]):
            self.collector.emit((n,), anchors=tuple_)
            self.collector.emit((b"raw",), anchors=tuple_, stream="raw")
        self.waiting.append(tuple_)
        if tuple_["n"] % 3:
            self.collector.ack_all(self.waiting[::-1])
            self.waiting.clear()

    def cleanup(self) -> None:
        self.collector.ack_all(self.waiting)


class Basic(BasicBolt):
    streams = (CHILD, RAW)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        for n in children(tuple_["n"]):
            collector.emit((n,))
            collector.emit((b"raw",), stream="raw")


class Batched(BatchBolt):
    streams = (CHILD, RAW)

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self.collector = collector

    def execute_batch(self, tuples: Sequence[Tuple]) -> None:
        for tuple_ in tuples:
            for n in children(tuple_["n"]):
                self.collector.emit((n,), anchors=tuple_)
            self.collector.ack(tuple_)


class Arrow(ArrowBolt):
    streams = (CHILD,)

    def execute_batch(self, batch: Any, collector: ArrowCollector) -> None:
        collector.emit(batch)
        children(batch.column("n")[0].as_py())
        collector.emit(batch)
        collector.ack()


class Windowed(WindowedBolt):
    window = tumbling(count=5)
    streams = (CHILD, RAW)

    def execute_window(self, window: Window) -> None:
        for tuple_ in window.tuples:
            for n in children(tuple_["n"]):
                self.collector.emit((n,), anchors=tuple_)


def check(log: Sequence[Sent], edges: dict[int, int]) -> set[int]:
    """Checks that no ack precedes a child of its input, or lacks one; returns the roots that were acked.

    Each input is alone in its tree: root → its edge.
    """
    written: dict[int, int] = defaultdict(int)
    acked: set[int] = set()
    for sent in log:
        if ".tuples." in sent.topic:
            stream = RAW if sent.header[SOURCE_HEADER] == b"middle/raw" else CHILD
            for _, child in tuples_of(sent.value or b"", sent.headers, stream):
                for root, edge in child.items():
                    assert root not in acked, f"a child of {root} was written after the ack of its input"
                    written[root] ^= edge
        elif sent.topic.endswith(".acks"):
            for root, val in zip(sent.batch.ack_roots.tolist(), sent.batch.ack_vals.tolist(), strict=True):
                assert val == edges[root] ^ written[root], f"the ack of {root} is not that of the children in the log"
                assert root not in acked
                acked.add(root)
    return acked


@pytest.mark.parametrize("bolt", [Manual, Basic, Batched, Arrow, Windowed])
def test_children_are_in_the_log_before_the_ack_of_their_input(bolt: Any) -> None:
    # Of three seeds, one has packs that are sent at once, and two have packs that are open at a flush.
    sizes = cycle((3, 1_000, 1))
    each_seed(lambda seed: run(bolt, random.Random(seed), next(sizes)))


def run(bolt: Any, chance: random.Random, pack_tuples: int) -> None:
    builder = TopologyBuilder("order", ack_partitions=2)
    builder.set_spout("numbers", Numbers)
    # A pause would leave tuples to later calls, which do not come.
    builder.set_bolt("middle", bolt, max_consecutive_failures=0).shuffle_grouping("numbers")
    for name in ("first", "second")[: chance.choice((1, 2))]:
        for stream in sorted(each.name for each in bolt.streams):
            builder.set_bolt(f"{name}-{stream}", Sink, tasks=2).shuffle_grouping("middle", stream)
    if chance.random() < 0.5:
        builder.add_hook(TaskHook)
    bench = Bench(builder.build(), sink=(sink := LogSink(chance)), pack_tuples=pack_tuples)
    task = bench.bolt("middle")
    edges: dict[int, int] = {}
    # One record has more tuples than an ack batch has entries.
    sizes = [chance.choice((1, 3, 9, 40)) for _ in range(20)] + [4_500]
    for size in chance.sample(sizes, len(sizes)):
        pairs = under_seed([chance.getrandbits(64) for _ in range(size)], chance.getrandbits(64))
        rows = [(len(edges) + index,) for index in range(size)]
        execute(task, bench.pack("middle", rows, pairs, source="numbers/default"))
        for pair in pairs:
            edges |= pair
        match chance.randrange(4):
            case 0:
                task.flush()
            case 1:
                task.tick(bench.clock.advance(0.004))
            case 2:
                sink.serve(3)
    task.cleanup()
    task.flush()
    acked = check(sink.log, edges)
    fold = getattr(task.adapter, "_fold", None)
    held = set() if fold is None else {root for tuple_ in fold.held for root in tuple_.roots}
    assert acked
    assert acked | sink.failed().keys() >= edges.keys() - held

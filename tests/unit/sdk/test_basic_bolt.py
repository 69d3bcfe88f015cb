"""A `BasicBolt` executes the tuples of a record together: every ack val has the edges of all emitted tuples."""

import math
import random
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from spout_sdk import BasicBolt, BasicCollector, Bolt, FailTupleError, Spout, TaskHook, TopologyBuilder, Tuple, declare
from spout_sdk.testing import MemoryRecord
from tests.packs import anchor_headers, packed, tuples_of, under_seed
from tests.seeds import each_seed
from tests.unit.sdk.memory import Bench, MemorySink, Sent
from tuple_tree.anchors import SOURCE_HEADER
from tuple_tree.ids import ID_MASK
from tuple_tree.messages import decode_ack_batch

LINES = declare({"row": int})
CHILDREN = {name: declare({"row": int}, name=name, direct=name == "direct") for name in ("one", "two", "direct")}


class Lines(Spout):
    streams = (LINES,)

    def next_tuple(self) -> None:
        """Emits nothing."""


class Sink(Bolt):
    def execute(self, tuple_: Tuple) -> None:
        """Is never run here."""


class Chance(BasicBolt):
    """Emits a random number of children to random streams, and raises sometimes."""

    streams = tuple(CHILDREN.values())
    chance: random.Random

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        chance = self.chance
        for _ in range(chance.choice((0, 1, 1, 3))):
            stream = chance.choice(("one", "one", "one", "two", "direct"))
            if stream == "direct":
                collector.emit_direct(("last", chance.randrange(2)), tuple_.values, stream=stream)  # type: ignore[arg-type]
            else:
                tasks = collector.emit(tuple_.values, stream=stream)
                assert [task.component for task in tasks] == (["last"] if stream == "one" else ["last", "also"])
        if chance.random() < 0.05:
            raise chance.choice((ValueError("bad"), FailTupleError("later")))


class Hook(TaskHook):
    """Makes the task execute its tuples one by one."""


@dataclass
class OrderedSink(MemorySink):
    """Keeps the order of all records; while it takes one, it may report the delivery of others."""

    chance: random.Random = field(default_factory=random.Random)
    sent: list[Sent] = field(default_factory=list)
    delivered: int = 0

    def send(self, *record: Any) -> None:
        super().send(*record)
        self.sent.append(self.tuples[-1])
        self.report()

    def send_reported(self, *record: Any) -> None:
        super().send_reported(*record)
        self.sent.append(self.reported[-1])

    def report(self) -> None:
        while self.holds_back and self.delivered < len(self.reported) and self.chance.random() < 0.8:
            self.delivered += 1
            self.reported[self.delivered - 1].deliver()


def _task(chance: random.Random, sink: OrderedSink) -> tuple[Bench, Any]:
    builder = TopologyBuilder("any", ack_partitions=chance.choice((1, 3)))
    builder.set_spout("lines", Lines)
    bolt = type("Chosen", (Chance,), {"chance": chance})
    kept = chance.random() < 0.5
    builder.set_bolt("any", bolt, on_exception="dead_letter" if kept else "fail").shuffle_grouping("lines")
    last = builder.set_bolt("last", Sink, tasks=2)
    last.fields_grouping("any", "row", stream="one").shuffle_grouping("any", "two").direct_grouping("any", "direct")
    builder.set_bolt("also", Sink).all_grouping("any", "two")
    if chance.random() < 0.1:
        builder.add_hook(Hook)
    bench = Bench(builder.build(), holds_back=True, sink=sink, pack_tuples=chance.choice((1, 5, 1_000)))
    return bench, bench.bolt("any")


def _record(bench: Bench, chance: random.Random, row: int, inputs: dict[int, dict[int, int]]) -> MemoryRecord:
    roots = []
    for _ in range(chance.choice((1, 5, 40, 300))):
        trees = 2 if chance.random() < 0.001 else 1
        roots.append([chance.randrange(1, ID_MASK) for _ in range(trees)])
    edges = under_seed(roots, chance.getrandbits(64))
    inputs |= dict(enumerate(edges, row))
    rows = [(number,) for number in range(row, row + len(edges))]
    return bench.raw("any", packed(LINES, *rows), [*anchor_headers(edges), (SOURCE_HEADER, b"lines/default")])


def _check(seed: int) -> None:
    chance = random.Random(seed)
    sink = OrderedSink(chance=chance)
    bench, task = _task(chance, sink)
    inputs: dict[int, dict[int, int]] = {}
    for _ in range(chance.choice((3, 20))):
        tuples = iter(task.read(_record(bench, chance, len(inputs), inputs)))
        while not task.execute(tuples, chance.choice((0.0, math.inf))):
            task.tick(bench.clock.advance(0.004))
        if chance.random() < 0.3:
            task.flush()
    task.flush()
    while task.open_inputs:
        sink.report()
        task.flush()
    _check_acks(sink.sent, inputs)


def _check_acks(sent: list[Sent], inputs: dict[int, dict[int, int]]) -> None:
    """Each input is settled once, and acked with the edges of children that were sent before, all of them."""
    children: dict[int, int] = defaultdict(int)
    settled: dict[int, str] = {}
    owners = {root: number for number, edges in inputs.items() for root in edges}
    for record in sent:
        if ".tuples." in record.topic:
            stream = CHILDREN[record.header["source"].decode().split("/")[1]]
            for (number,), edges in tuples_of(record.value or b"", record.headers, stream):
                assert edges.keys() == inputs[number].keys()
                assert not any(settled.get(root) == "acked" for root in edges)
                children[number] ^= edges.popitem()[1]
        elif record.topic.endswith(".acks"):
            batch = decode_ack_batch(record.value or b"")
            for root, val in zip(batch.ack_roots.tolist(), batch.ack_vals.tolist(), strict=True):
                number = owners[root]
                assert val == inputs[number][root] ^ children[number]
                assert settled.setdefault(root, "acked") == "acked"
            for root in batch.fail_roots.tolist():
                assert settled.setdefault(root, "failed") == "failed"
    assert settled.keys() == owners.keys()


def test_every_ack_val_holds_the_edges_of_all_children_which_were_sent_before() -> None:
    each_seed(_check)

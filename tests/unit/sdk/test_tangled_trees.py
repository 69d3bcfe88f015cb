"""No tree completes before all of its inputs are acked and all of its tuples are in the log, before their acks.

Tuples have any number of trees and anchors, traces, and receivers; some emits raise, some tuples are not delivered.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from spout_sdk import TopologyBuilder
from spout_sdk.emitting.emitter import Emitter
from spout_sdk.testing import MemoryRecord
from tests.components import Sink, source
from tests.packs import tuples_of, under_seed
from tests.seeds import each_seed
from tests.unit.sdk.memory import Bench, LogSink, Sent, entries_of
from tests.unit.sdk.tangled_components import (
    CHILD,
    STREAMS,
    Arrow,
    Basic,
    Batched,
    Here,
    Moody,
    Source,
    Tangled,
    Watching,
    World,
    noting,
)
from tuple_tree.anchors import SOURCE_HEADER


@pytest.fixture(autouse=True)
def _noted_receivers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Emitter, "_emit", noting(Emitter._emit))


def topology(bolt: Any, chance: random.Random, *, is_chained: bool, **options: Any) -> Any:
    builder = TopologyBuilder("order", ack_partitions=2, **options)
    builder.set_spout("numbers", source(CHILD))
    builder.set_bolt("middle", bolt, **options_of(bolt)).shuffle_grouping("numbers")
    Here.world.kinds["middle"] = bolt
    streams = {stream.name for stream in bolt.streams}
    receive(builder, "middle", streams, chance)
    if is_chained:
        chain(builder, "middle", streams, chance)
    if issubclass(bolt, Arrow) or is_chained or chance.random() < 0.3:
        builder.add_hook(Watching)
    return builder.build()


def chain(builder: TopologyBuilder, head: str, streams: set[str], chance: random.Random) -> None:
    """Chains bolts to a component, and to each other; some also emit to others through Kafka."""
    sources = [(head, stream) for stream in sorted(streams & {"default", "raw"})]
    for number in range(chance.choice((1, 2, 4))):
        source, stream = chance.choice(sources)
        kind = chance.choice((Tangled, Basic) if stream == "raw" else (Tangled, Basic, Arrow))
        name = f"chained-{number}"
        builder.set_bolt(name, kind, **options_of(kind)).local_grouping(source, stream)
        Here.world.kinds[name] = kind
        own = {each.name for each in kind.streams}
        sources += [(name, each) for each in sorted(own & {"default", "raw"})]
        if chance.random() < 0.6:
            receive(builder, name, own, chance, f"{name}-")


def options_of(kind: Any) -> dict[str, Any]:
    return {"on_exception": Here.world.on_exception} if issubclass(kind, Basic) else {}


def receive(builder: TopologyBuilder, source: str, streams: set[str], chance: random.Random, prefix: str = "") -> None:
    builder.set_bolt(f"{prefix}every", Sink, tasks=2).all_grouping(source)
    builder.set_bolt(f"{prefix}one", Sink, tasks=3).shuffle_grouping(source)
    builder.set_bolt(f"{prefix}moody", Sink, tasks=3).custom_grouping(source, Moody, "moody")
    if chance.random() < 0.7:
        builder.set_bolt(f"{prefix}other", Sink, tasks=2).custom_grouping(source, Moody, "moody")
    if "raw" in streams:
        builder.set_bolt(f"{prefix}raw", Sink, tasks=2).fields_grouping(source, "raw", stream="raw")
        if chance.random() < 0.7:
            builder.set_bolt(f"{prefix}rawer", Sink, tasks=2).custom_grouping(source, Moody, "raw")


def check(world: World, log: Sequence[Sent], sums: dict[int, int]) -> None:
    """At each place in the log, a tree whose tuples are all acked by their receivers is complete only if it may be."""
    written: Counter[int] = Counter()
    inputs, known, marked = set(sums), set(sums), set[int]()
    for sent in log:
        touched: set[int] = set()
        if ".tuples." in sent.topic:
            stream = STREAMS[sent.header[SOURCE_HEADER].decode().partition("/")[2]]
            for values, edges in tuples_of(sent.value or b"", sent.headers, stream):
                if sent.topic.endswith(".raw"):
                    assert sent.key == values[0]
                written.update([*edges])
                for root in add(sums, edges.items()) & inputs:
                    assert sums[root], f"a tuple of tree {root} is sent after the ack of its input"
        elif sent.topic.endswith(".acks"):
            touched = add(sums, entries_of(sent.batch))
            known.update(sent.batch.init_roots.tolist())
            marked.update(sent.batch.mark_roots.tolist())
        for root in touched & known:
            if not sums[root]:
                assert not world.open[root], f"tree {root} completes, and an input of it is open"
                assert written[root] == world.emitted[root], f"tree {root} completes before all of it is sent"
                assert (root in marked) == (root in world.dead), f"tree {root} completes without its mark"


def add(sums: dict[int, int], pairs: Iterable[tuple[int, int]]) -> set[int]:
    """XORs values of roots into sums; returns the roots."""
    touched = set()
    for root, value in pairs:
        sums[root] = sums.get(root, 0) ^ value
        touched.add(root)
    return touched


@pytest.mark.parametrize("bolt", [Tangled, Batched, Basic, Arrow])
def test_a_tree_completes_when_all_of_it_is_sent_and_acked(bolt: Any) -> None:
    each_seed(lambda seed: run_bolt(bolt, seed))


@pytest.mark.parametrize("bolt", [Tangled, Basic, Arrow])
def test_a_tree_completes_when_chained_bolts_have_acked_all_of_it(bolt: Any) -> None:
    each_seed(lambda seed: run_bolt(bolt, seed, is_chained=True))


def run_bolt(bolt: Any, seed: int, *, is_chained: bool = False) -> None:
    Here.world = world = World(seed)
    chance = world.chance
    guarantee = chance.choice(("at_least_once", "exactly_once"))
    world.sink = sink = LogSink(chance, lost=0.01)
    world.refused = chance.choice((0, 0.3))
    made = topology(bolt, chance, is_chained=is_chained, guarantee=guarantee)
    bench = Bench(made, sink=sink, pack_tuples=chance.choice((1, 3, 1_000)))
    task = bench.bolt("middle")
    sums: dict[int, int] = {}
    trees = [chance.getrandbits(64) for _ in range(300)]
    for number in range(60):
        size = chance.choice((1, 1, 3, 20))
        of = [chance.sample(trees, chance.choice((0, 1, 1, 1, 3))) for _ in range(size)]
        if chance.random() < 0.3:
            of = [chance.sample(trees, 1) for _ in range(size)]
        pairs = under_seed(of, chance.getrandbits(64))
        for pair in pairs:
            world.open.update(add(sums, pair.items()))
        trace = [("traceparent", b"00-%d" % chance.randrange(3))] if chance.random() < 0.3 else []
        record = bench.pack("middle", [(number,)] * size, pairs, *trace, source="numbers/default")
        execute_in_parts(task, record, chance)
        pass_time(task, bench, chance, (0.004,))
    settle(task, sink, task.cleanup)
    check(world, sink.log, sums)
    endless = world.endless | sink.failed().keys()
    assert all(sums[root] for root in world.failed), "a tree completes, and an input of it has failed"
    for root, left in sums.items():
        if not sink.refusals and root not in endless and not world.open[root]:
            assert not left, f"tree {root} never completes"


def execute_in_parts(task: Any, record: MemoryRecord, chance: random.Random) -> None:
    if task.takes != "columns":
        assert task.execute(iter(task.read(record)), math.inf)
        return
    rows = task.read_columns(record)
    while rows:
        part = rows[: chance.choice((1, 7, 1_000))]
        task.execute_batch(part)
        assert task.chain.run(math.inf)
        rows = rows[len(part) :]


def pass_time(task: Any, bench: Bench, chance: random.Random, seconds: Sequence[float]) -> None:
    if chance.random() < 0.2:
        task.flush()
    elif chance.random() < 0.2:
        task.tick(bench.clock.advance(chance.choice(seconds)))


def settle(task: Any, sink: LogSink, end: Callable[[], object]) -> None:
    """Ends the task's work, and delivers all that it has sent."""
    for step in (end, task.flush, task.flush, task.flush):
        sink.flush_acks(0)
        step()


@pytest.mark.parametrize("inits_first", [False, True])
def test_a_message_is_complete_when_all_of_it_is_sent(inits_first: bool) -> None:
    each_seed(lambda seed: run_spout(inits_first, seed))


@pytest.mark.parametrize("inits_first", [False, True])
def test_a_message_is_complete_when_chained_bolts_have_acked_it(inits_first: bool) -> None:
    each_seed(lambda seed: run_spout(inits_first, seed, is_chained=True))


def run_spout(inits_first: bool, seed: int, *, is_chained: bool = False) -> None:
    Here.world = world = World(seed)
    chance = world.chance
    world.traces = chance.choice((1, 4))
    builder = TopologyBuilder("order", ack_partitions=2, max_spout_pending=10_000)
    builder.set_spout("numbers", Source)
    receive(builder, "numbers", {"raw"}, chance)
    if inits_first:
        builder.set_bolt("spark", lambda rows: rows, external=True).shuffle_grouping("numbers")
    if is_chained:
        chain(builder, "numbers", {"default", "raw"}, chance)
        builder.add_hook(Watching)
    world.sink = sink = LogSink(chance, lost=0.01, inits_first=inits_first)
    bench = Bench(builder.build(), sink=sink, pack_tuples=chance.choice((1, 3, 1_000)))
    task = bench.spout("numbers")
    for _ in range(100):
        task.emit(chance.choice((1, 5, 40)))
        pass_time(task, bench, chance, (0.004, 0.7))
    settle(task, sink, task.close if is_chained else task.flush)
    sums: dict[int, int] = {}
    check(world, sink.log, sums)
    failed = sink.failed().keys() | world.endless
    assert not world.acked & sums.keys(), "no acker may have entries of these trees"
    assert all(sums[root] for root in world.failed), "a message is complete, and an input of it has failed"
    assert len(sums) + len(world.acked) > 50
    for root, left in sums.items():
        assert root in world.emitted or left, f"message {root} is acked, and was not emitted"
        assert root in failed or root not in world.emitted or not left, f"message {root} never completes"
    assert world.emitted.keys() <= sums.keys() | failed | world.acked

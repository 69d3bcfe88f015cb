"""No tree completes before all of its inputs are acked and all of its tuples are in the log, before their acks.

Tuples have any number of trees and anchors, traces, and receivers; some emits raise, some tuples are not delivered.
"""

from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest

from spout_sdk import Topology, TopologyBuilder
from spout_sdk.bolts.step import Step
from spout_sdk.testing import MemoryRecord, SimulatedCluster, clients
from tests.packs import tuples_of
from tests.seeds import each_seed
from tests.unit.sdk.tangled_trees import (
    STREAMS,
    Arrow,
    Basic,
    Batched,
    Here,
    Leaf,
    Moody,
    Source,
    Stepped,
    Tangled,
    TroubledProducer,
    World,
)
from tuple_tree.messages import decode_ack_batch


@pytest.fixture(autouse=True)
def _trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "MemoryProducer", TroubledProducer)
    executed = Step.run

    def run_and_flush(step: Step, until: float) -> bool:
        is_executed = executed(step, until)
        if Here.world.chance.random() < 0.1:  # the time of a turn ends between two steps
            step.outbox.flush()
        return is_executed

    monkeypatch.setattr(Step, "run", run_and_flush)


class Tangle(TopologyBuilder):
    """Notes which tasks receive each tuple of a stream."""

    def __init__(self, **options: Any) -> None:
        world = Here.world
        of = {"ack_partitions": 2, "guarantee": world.guarantee, **options}
        super().__init__("order", pack_tuples=world.chance.choice((1, 3, 1_000)), **of)

    def bolt(self, name: str, kind: Any, source: str, how: str = "shuffle", stream: str = "default", **of: Any) -> None:
        if issubclass(kind, Basic | Stepped):
            of["on_exception"] = Here.world.on_exception
        declared = self.set_bolt(name, Stepped.of(name) if kind is Stepped else kind, **of)
        fields = (stream,) if how == "fields" else (Moody,) if how == "custom" else ()
        getattr(declared, f"{how}_grouping")(source, *fields, stream=stream)
        if how != "custom":
            Here.world.receivers[source, stream] += of.get("tasks", 1) if how == "all" else 1

    def receive(self, source: str, streams: set[str], prefix: str = "") -> None:
        chance = Here.world.chance
        self.bolt(f"{prefix}every", Leaf, source, "all", tasks=2)
        self.bolt(f"{prefix}one", Leaf, source, tasks=3)
        if "moody" in streams:
            self.bolt(f"{prefix}moody", Leaf, source, "custom", "moody", tasks=2)
            if chance.random() < 0.7:
                self.bolt(f"{prefix}other", Leaf, source, "custom", "moody")
        if "raw" in streams:
            self.bolt(f"{prefix}raw", Leaf, source, "fields", "raw")
            if chance.random() < 0.7:
                self.bolt(f"{prefix}rawer", Leaf, source, "custom", "raw", tasks=2)

    def chain(self, head: str, streams: set[str]) -> None:
        """Chains bolts to a component, and to each other; some also emit to others through Kafka."""
        chance = Here.world.chance
        sources = [(head, stream) for stream in sorted(streams & {"default", "raw"})]
        for number in range(chance.choice((1, 2, 4))):
            source, stream = chance.choice(sources)
            kind = chance.choice((Tangled, Basic) if stream == "raw" else (Tangled, Basic, Arrow, Stepped))
            name = f"chained-{number}"
            self.bolt(name, kind, source, "local", stream)
            own = {each.name for each in kind.streams}
            sources += [(name, each) for each in sorted(own & {"default", "raw"})]
            if chance.random() < 0.6:
                self.receive(name, own, f"{name}-")


class Checked(SimulatedCluster):
    """Checks each record of the log: a tree whose entries cancel each other is complete only if it may be."""

    def __init__(self, topology: Topology, world: World, **options: Any) -> None:
        # A transaction is visible as a whole.
        self.world, self.inits_first = world, topology.acks_ahead and topology.manifest.guarantee != "exactly_once"
        self.sums: defaultdict[int, int] = defaultdict(int)  # root → XOR of its inits, acks and marks
        self.left: defaultdict[tuple[str, int], int] = defaultdict(int)  # of each bolt, without its open inputs
        self.sequences: defaultdict[Any, int] = defaultdict(lambda: -1)
        self.begun, self.complete = set[int](), set[int]()
        self.fails, self.marked = set[int](), set[int]()
        self.has_hooks = world.chance.random() < 0.5
        super().__init__(topology, seed=world.chance.getrandbits(32), **options)

    def _begin(self, component: str, number: int) -> None:
        if not self.has_hooks:
            self.topology = replace(self.topology, hooks=())
        if not hasattr(self, "append"):
            self.append, self.broker.append = self.broker.append, self.appended  # type: ignore[assignment]
        super()._begin(component, number)

    def appended(self, topic: str, *rest: Any) -> MemoryRecord:
        record = self.append(topic, *rest)
        match topic.split(".")[1:]:
            case ["tuples", bolt]:
                self.look_at_tuples(bolt, record)
            case ["acks"]:
                self.look_at_entries(record)
        return record

    def look_at_tuples(self, bolt: str, record: MemoryRecord) -> None:
        component, stream = dict(record.headers() or ())["source"].decode().split("/")  # type: ignore[union-attr]
        head = self.topology.manifest.head(component).name
        for values, edges in tuples_of(record.value() or b"", record.headers() or (), STREAMS[stream]):
            if bolt.endswith("raw"):
                assert record.key() == values[0]
            for root, edge in edges.items():
                assert root not in self.complete, f"tree {root} completes before all of it is sent"
                if head != "numbers":
                    self.left[head, root] ^= edge
                    assert self.left[head, root], f"a tuple of tree {root} is sent after the ack of its input"
                elif self.inits_first:
                    assert root in self.begun, f"a tuple of tree {root} is sent before its init"
                self.left[bolt, root] ^= edge

    def look_at_entries(self, record: MemoryRecord) -> None:
        batch, world = decode_ack_batch(record.value()), self.world
        writer = batch.writer, batch.session, record.partition()
        assert batch.sequence == self.sequences[writer] + 1, "an acker drops a batch that comes behind a later one"
        self.sequences[writer] = batch.sequence
        component = batch.writer.partition("/")[0]
        touched = set[int]()
        for kind in ("init", "ack", "mark"):
            roots, vals = getattr(batch, f"{kind}_roots").tolist(), getattr(batch, f"{kind}_vals").tolist()
            for root, val in zip(roots, vals, strict=True):
                self.sums[root] ^= val
                self.left[component, root] ^= val
                touched.add(root)
        self.begun.update(batch.init_roots.tolist())
        self.marked.update(batch.mark_roots.tolist())
        self.fails.update(batch.fail_roots.tolist())
        for root in touched & self.begun:
            if not self.sums[root]:
                assert root in world.endless or not world.open[root], (
                    f"tree {root} completes, and a tuple of it is open"
                )
                assert root not in world.failed, f"tree {root} completes, and an input of it has failed"
                assert (root in self.marked) == (root in world.dead), f"tree {root} completes without its mark"
                self.complete.add(root)

    def live(self) -> None:
        """Emits messages until all are settled."""
        chance, world = self.world.chance, self.world
        for _ in range(8):
            world.left += chance.choice((1, 5, 20))
            self.advance(0.1) if chance.random() < 0.3 else self.run_until_idle()
        self.run_until_idle()  # a spout that ends with messages emits them in its next life, and holds these
        assert not world.left
        # What bolts hold is settled when they end.
        for head in sorted(self.topology.manifest.heads, key=lambda each: each.name != "numbers"):
            for task in range(head.tasks):
                self.restart(head.name, task)
            self.run_until_idle()

    def check(self) -> None:
        """All of each tree was executed, and it is complete, unless it has failed."""
        world = self.world
        endless = world.endless | world.failed | self.fails
        for number, roots in world.roots.items():
            if roots and not roots & endless and number in world.due:
                assert world.executed[number] == world.due[number], f"tuple {number} of trees {roots}"
        for root in self.sums:
            assert root in endless or root in self.complete, f"tree {root} never completes"
        assert len({root for roots in world.roots.values() for root in roots} - endless) > 3


def run(seed: int, kind: Any = None, *, is_chained: bool = False, inits_first: bool = False) -> None:
    Here.world = world = World(seed)
    # What is done is executed again if a task ends while a chained bolt holds a tuple without a tree.
    world.has_untracked = not (is_chained and world.guarantee == "exactly_once")
    builder = Tangle()
    builder.set_spout("numbers", Source)
    head, streams = "numbers", {each.name for each in Source.streams}
    if kind is not None:
        # Rows with one anchor each are emitted together; a `Tangled` emits others as well.
        builder.bolt("front", Basic if kind is Stepped else Tangled, "numbers")
        builder.bolt("middle", kind, "front")
        head, streams = "middle", {each.name for each in kind.streams}
    builder.receive(head, streams)
    if is_chained:
        builder.chain(head, streams)
    if inits_first:
        builder.set_bolt("spark", lambda rows: rows, external=True).shuffle_grouping("numbers")
        world.receivers["numbers", "default"] += 1
    cluster = Checked(builder.build(), world, bolts={"spark": Leaf} if inits_first else {})
    with cluster:
        cluster.live()
    cluster.check()


@pytest.mark.parametrize("bolt", [Tangled, Batched, Basic, Arrow, Stepped])
def test_a_tree_completes_when_all_of_it_is_sent_and_acked(bolt: Any) -> None:
    each_seed(lambda seed: run(seed, bolt))


@pytest.mark.parametrize("bolt", [Tangled, Basic, Arrow, Stepped])
def test_a_tree_completes_when_chained_bolts_have_acked_all_of_it(bolt: Any) -> None:
    each_seed(lambda seed: run(seed, bolt, is_chained=True))


@pytest.mark.parametrize("inits_first", [False, True])
def test_a_message_is_complete_when_all_of_it_is_sent(inits_first: bool) -> None:
    each_seed(lambda seed: run(seed, inits_first=inits_first))


@pytest.mark.parametrize("inits_first", [False, True])
def test_a_message_is_complete_when_chained_bolts_have_acked_it(inits_first: bool) -> None:
    each_seed(lambda seed: run(seed, is_chained=True, inits_first=inits_first))

"""A task sends tuples of any size and anchors in their order, and ack batches whose delivery settles inputs."""

import random
from collections import defaultdict
from functools import partial
from typing import Any, ClassVar

import pytest

from spout_sdk import TopologyBuilder, Tuple, declare
from spout_sdk.arrow import ArrowBolt, ArrowCollector
from spout_sdk.errors import DeliveryError, TupleAlreadyDoneError
from spout_sdk.groupings import TaskId
from spout_sdk.testing import SimulatedCluster, clients
from tests.components import ByHand, Sink, source
from tests.packs import tuples_of, under_seed
from tests.seeds import each_seed
from tests.unit.sdk.bench import Bench, Manual, bench_of, rig
from tests.unit.sdk.sent_records import NOT_DELIVERED
from tuple_tree.packs import MAX_BYTES

TEXT = {"text": str, "number": int}
TASKS = 3


def given(bench: Bench, *roots: Any) -> None:
    """A record with a tuple for each root, or roots."""
    bench.pack("split", [("a",)] * len(roots), under_seed(roots))
    bench.cluster.run_until_idle()


class Scatter(ByHand):
    """Emits texts of any size to tasks of its choice."""

    chance: ClassVar[random.Random]
    emitted: ClassVar[dict[int, list[tuple[str, int]]]]

    def execute(self, tuple_: Tuple) -> None:
        for number in range(self.chance.choice((0, 1, 20, 300))):
            task, size = self.chance.randrange(TASKS), self.chance.choices((3, 2_000, 200_000), (100, 10, 1))[0]
            values = "x" * size, number
            self.emitted[task].append(values)
            anchors = self.chance.choice(([], [tuple_]))
            self.collector.emit_direct(TaskId("count", task), values, anchors=anchors)
        self.collector.ack(tuple_)


@pytest.mark.parametrize("codec", ["arrow", "avro"])
def test_emitted_tuples_arrive_in_their_order(codec: Any) -> None:
    def check(seed: int) -> None:
        Scatter.chance, Scatter.emitted = random.Random(seed), defaultdict(list)
        Scatter.streams = (declare(TEXT, codec=codec, direct=True),)
        builder = TopologyBuilder("order", pack_tuples=Scatter.chance.choice((1, 2, 7, 1_000)))
        builder.set_spout("numbers", source(declare({"n": int})))
        builder.set_bolt("scatter", Scatter).shuffle_grouping("numbers")
        builder.set_bolt("count", Sink, tasks=TASKS).direct_grouping("scatter")
        with SimulatedCluster(builder.build(), seed=seed, sources={"numbers": [(n,) for n in range(8)]}) as cluster:
            cluster.run_until_idle()
            assert sorted(cluster.acked("numbers")) == list(range(8))
            for task in range(TASKS):
                assert cluster.executed("count", task) == Scatter.emitted[task]
            for record in cluster.records("order.tuples.count"):
                value = record.value() or b""
                rows = tuples_of(value, record.headers() or (), Scatter.streams[0])
                assert len(value) <= MAX_BYTES or len(rows) == 1

    each_seed(check)


def test_anchors_count_for_the_size_of_a_record() -> None:
    bench, task, bolt = bench_of()
    given(bench, *(range(1_000 * first + 1, 1_000 * first + 1_001) for first in range(100)))
    for number, tuple_ in enumerate(bolt.tuples):
        bolt.collector.emit((str(number),), anchors=tuple_)
    task.flush()
    sizes = [sum(len(value or b"") for _, value in sent.headers) + len(sent.value or b"") for sent in bench.sink.tuples]
    assert (len(sizes) > 3, max(sizes) < 300_000) == (True, True)
    assert len(bench.sink.edges()) == 100_000


def test_parts_of_a_pack_that_is_too_large_have_the_edges_that_were_joined() -> None:
    bench, task, bolt = bench_of()
    given(bench, *range(1, 101))
    for tuple_ in bolt.tuples:
        bolt.collector.emit(("x" * 9_000,), anchors=tuple_)
        bolt.collector.ack(tuple_)
    task.flush()
    assert len(bench.sink.tuples) > 3
    edges = bench.sink.edges()
    inputs = {root: edge for each in under_seed(range(1, 101)) for root, edge in each.items()}
    assert bench.sink.checksums() == {root: inputs[root] ^ edge for root, edge in edges.items()}
    assert len(edges) == len(set(edges.values())) == 100


def test_a_record_that_is_not_delivered_fails_the_trees_of_all_its_tuples() -> None:
    bench, task, bolt = bench_of()
    given(bench, 1, (7, 8), ())
    for tuple_ in bolt.tuples:
        bolt.collector.emit(("a",), anchors=tuple_)
    task.flush()
    (sent,) = bench.sink.tuples
    sent.deliver(NOT_DELIVERED)
    task.flush()
    assert bench.sink.failed().keys() == {1, 7, 8}


def test_long_messages_are_cut_and_sent_before_they_fill_a_record() -> None:
    bench, task, bolt = bench_of(ack_partitions=1)
    given(bench, *range(2_048))
    for tuple_ in bolt.tuples:
        bolt.collector.fail(tuple_, "x" * 10_000)
    task.flush()
    (length,) = {len(message) for message in bench.sink.failed().values()}
    assert 100 < length < 1_000
    assert max(len(sent.value or b"") for sent in bench.sink.to(".acks")) < 200_000
    assert len(bench.sink.failed()) == 2_048


def test_inputs_are_settled_when_all_batches_of_their_flush_are_delivered() -> None:
    bench, task, bolt = bench_of()
    for root in range(4):
        given(bench, root)
    bench.sink.holds_back = True
    bolt.collector.ack_all(bolt.tuples)
    task.flush()
    even, odd = [sent for sent in bench.sink.to(".acks") if not sent.batch.opens]
    assert task.committable == 0
    odd.deliver()
    assert task.committable == 0
    even.deliver()
    assert task.committable == 4


def test_a_record_is_done_when_all_sends_up_to_its_last_ack_are_delivered() -> None:
    bench, task, bolt = bench_of()
    # A tuple without a tree is the last one: nothing about it is sent.
    given(bench, 1, 2, 3, ())
    bench.sink.holds_back = True
    for tuple_ in bolt.tuples:
        bolt.collector.ack(tuple_)
        task.flush()
    batches = [sent for sent in bench.sink.to(".acks") if not sent.batch.opens]
    for at in (2, 0, 1):
        assert task.committable == 0
        batches[at].deliver()
    assert task.committable == 1


def test_a_batch_that_is_not_delivered_settles_nothing_and_stops_the_writer() -> None:
    bench, task, bolt = bench_of()
    given(bench, 1)
    bench.sink.holds_back = True
    bolt.collector.ack_all(bolt.tuples)
    task.flush()
    bench.sink.to(".acks")[-1].deliver(NOT_DELIVERED)
    with pytest.raises(DeliveryError, match=r"split/0 for words.acks\[1\] was not delivered .*; restart"):
        task.flush()
    assert task.committed.offset == 0


def test_a_send_that_raises_acks_nothing_that_was_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a full pack in the middle of a call; the tuple that emits then fails."""
    bench, task, _ = rig(pack_tuples=2)
    produce, left = clients.MemoryProducer.produce, [1]

    def raises(producer: Any, topic: str, *record: Any, **named: Any) -> None:
        if ".tuples." in topic and left:
            left.pop()
            raise MemoryError
        produce(producer, topic, *record, **named)

    monkeypatch.setattr(clients.MemoryProducer, "produce", raises)
    for root in (1, 2, 3):
        bench.record("split", ("a",), {root: root}, task=1)
    task.flush()
    bolt = task.bolt
    emit = [partial(bolt.collector.emit, (str(tuple_.roots[0]),), anchors=tuple_) for tuple_ in bolt.tuples]
    emit[0]()
    with pytest.raises(MemoryError):
        emit[1]()
    emit[2]()
    bolt.collector.ack_all(bolt.tuples)
    task.flush()
    edges = bench.sink.edges()
    for root, val in bench.sink.checksums().items():
        assert val != root, f"tree {root} completes, and its tuple was not sent"
        assert root not in edges or val == root ^ edges[root]


class LateByHand(Manual):
    def execute(self, tuple_: Any) -> None:
        self.collector.ack(tuple_)
        with pytest.raises(TupleAlreadyDoneError):
            self.collector.emit(("late",), anchors=tuple_)


class Late(ArrowBolt):
    streams = (declare({"line": str}),)

    def execute_batch(self, batch: Any, collector: ArrowCollector) -> None:
        collector.ack()
        collector.emit(batch)


@pytest.mark.parametrize(("bolt", "roots"), [(LateByHand, [[5, 6, 7]]), (Late, [5, 6, 7])])
def test_an_emit_that_comes_too_late_sends_no_ack_before_its_fails(bolt: Any, roots: list[Any]) -> None:
    """The acks that were not sent yet are removed."""
    bench, _, _ = bench_of(bolt)
    given(bench, *roots)
    assert bench.sink.checksums() == {}
    assert bench.sink.failed().keys() == {5, 6, 7}

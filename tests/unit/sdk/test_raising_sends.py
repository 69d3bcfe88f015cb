"""Errors in the middle of an emit or a send: no ack that follows may lack a child."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from spout_sdk import (
    ArrowBolt,
    ArrowCollector,
    CustomGrouping,
    Spout,
    SpoutCollector,
    TaskContext,
    TopologyBuilder,
    TupleAlreadyDoneError,
    declare,
)
from spout_sdk.emitting import open_pack as open_packs
from spout_sdk.emitting import outbox as outboxes
from spout_sdk.errors import BrokerError
from tests.components import Sink
from tests.packs import under_seed
from tests.unit.sdk.bolt_rig import Lines, Manual
from tests.unit.sdk.memory import Bench, MemorySink, execute, made
from tests.unit.sdk.outbox_rig import OutboxRig
from tuple_tree.input_batch import InputBatch


@pytest.mark.parametrize("sent_by", ["full pack", "flush"])
def test_tuples_whose_edges_cannot_be_drawn_are_sent_later_or_never_acked(
    sent_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = OutboxRig(partitions=1, pack_tuples=2 if sent_by == "full pack" else 1_000)
    batch = InputBatch()
    places = [batch.begin(root) for root in (1, 2, 3)]
    rig.add_row(("a", 1), [(batch, places[0])])

    def fails(*_: Any) -> Any:
        raise MemoryError

    add = partial(rig.add_row, ("b", 2), [(batch, places[1])])
    with monkeypatch.context() as patch:
        patch.setattr(open_packs, "edge_column", fails)
        with pytest.raises(MemoryError):
            (add if sent_by == "full pack" else rig.outbox.flush)()
    rig.add_row(("c", 3), [(batch, places[2])])
    for place in places:
        rig.outbox.acked.add(batch, place)
    rig.outbox.flush()
    rows = {1, 3} if sent_by == "flush" else {1, 2, 3}
    sent = {root: edge for _, edges, _ in rig.sent()[0] for root, edge in edges.items()}
    assert sent.keys() == rows
    assert {root: val for root, val in rig.sink.checksums().items() if root in rows} == sent


def test_an_emit_that_comes_too_late_sends_no_ack_before_its_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The acks that were not sent yet are removed, also if the fails are many and sent at once."""
    monkeypatch.setattr(outboxes, "_MOST_CHARACTERS", 1)
    builder = TopologyBuilder("words", ack_partitions=1)
    builder.set_spout("lines", Lines)
    bolts: list[Any] = []
    builder.set_bolt("split", made(bolts, Manual)).shuffle_grouping("lines")
    builder.set_bolt("count", Sink).all_grouping("split")
    bench = Bench(builder.build())
    task = bench.bolt("split")
    [edges] = under_seed([[5, 6, 7]])
    execute(task, bench.record("split", ("a",), edges))
    [input_] = bolts[-1].tuples
    bolts[-1].collector.ack(input_)
    with pytest.raises(TupleAlreadyDoneError):
        bolts[-1].collector.emit(("late",), anchors=input_)
    task.flush()
    assert bench.sink.checksums() == {}
    assert bench.sink.failed().keys() == {5, 6, 7}


class Late(ArrowBolt):
    streams = (declare({"line": str}),)

    def execute_batch(self, batch: Any, collector: ArrowCollector) -> None:
        collector.ack()
        collector.emit(batch)


def test_rows_that_come_too_late_send_no_ack_before_their_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outboxes, "_MOST_CHARACTERS", 1)
    builder = TopologyBuilder("words", ack_partitions=1)
    builder.set_spout("lines", Lines)
    builder.set_bolt("split", Late).shuffle_grouping("lines")
    bench = Bench(builder.build())
    task = bench.bolt("split")
    execute(task, bench.pack("split", [("a",), ("b",), ("c",)], under_seed([5, 6, 7])))
    task.flush()
    assert bench.sink.checksums() == {}
    assert bench.sink.failed().keys() == {5, 6, 7}


class Moody(CustomGrouping):
    """Raises for the word `bad`."""

    def choose(self, values: Sequence[Any]) -> Sequence[int]:
        return {"good": (0,)}[values[0]]


class Tolerant(Spout):
    """Continues after whatever an emit has raised."""

    streams = (declare({"word": str}),)

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        self.collector = collector
        self.words = ["good", "bad", "good"]

    def next_tuple(self) -> None:
        if self.words:
            try:
                self.collector.emit((self.words[0],), message_id=len(self.words))
            except Exception:  # noqa: BLE001 - as some spouts do
                self.collector.metrics.ignored_notices += 1
            del self.words[0]


def test_a_message_is_not_acked_if_its_grouping_has_raised() -> None:
    builder = TopologyBuilder("words", ack_partitions=1)
    builder.set_spout("lines", Tolerant)
    builder.set_bolt("one", Sink).all_grouping("lines")
    builder.set_bolt("moody", Sink).custom_grouping("lines", Moody)
    bench = Bench(builder.build(), pack_tuples=1_000)
    task = bench.spout("lines")
    for _ in range(3):
        task.emit(1)
    task.flush()
    assert bench.counters.ignored_notices == 1
    assert len(bench.sink.checksums()) >= 2
    assert 0 not in bench.sink.checksums().values()


class Ended(MemorySink):
    """Cannot send tuples to the second task."""

    def send(self, *record: Any) -> None:
        if record[1] == 1:
            raise BrokerError("the producer cannot continue")
        super().send(*record)


@pytest.mark.parametrize("anchors", [1, 2])
def test_an_emit_that_raised_after_it_was_added_for_some_receivers_is_never_acked(anchors: int) -> None:
    """A pack of another trace is sent before a tuple is added to it."""
    builder = TopologyBuilder("words", ack_partitions=1)
    builder.set_spout("lines", Lines)
    bolts: list[Any] = []
    builder.set_bolt("split", made(bolts, Manual)).shuffle_grouping("lines")
    builder.set_bolt("count", Sink, tasks=2).all_grouping("split")
    bench = Bench(builder.build(), sink=(sink := Ended()), pack_tuples=1_000)
    task = bench.bolt("split")
    traced = bench.record("split", ("a",), under_seed([1])[0])
    traced = replace(traced, headers_=[*(traced.headers() or ()), ("traceparent", b"00-1")])
    execute(task, traced, *(bench.record("split", ("b",), each) for each in under_seed([2, 3])))
    collector, (first, *others) = bolts[-1].collector, bolts[-1].tuples
    collector.emit(("a",), anchors=first)
    with pytest.raises(BrokerError):
        collector.emit(("b",), anchors=others[:anchors])
    collector.ack_all(others)
    sink.send = super(Ended, sink).send  # type: ignore[method-assign]
    task.flush()
    edges = dict(each for of in others for each in of.edges.items())
    sums = sink.checksums()
    for root in [2, 3][:anchors]:
        assert sums[root] != edges[root] ^ sent_edges(sink).get(root, 0)


def sent_edges(sink: MemorySink) -> dict[int, int]:
    sums: dict[int, int] = {}
    for sent in sink.tuples:
        for root, edge in sent.edges.items():
            sums[root] = sums.get(root, 0) ^ edge
    return sums


class Swallowing(ArrowBolt):
    """Acks, whatever an emit has raised."""

    streams = (declare({"line": str}),)
    raised = 0

    def execute_batch(self, batch: Any, collector: ArrowCollector) -> None:
        try:
            collector.emit(batch)
        except BrokerError:
            type(self).raised += 1
        collector.ack()


def test_rows_that_were_added_for_some_receivers_are_never_acked() -> None:
    builder = TopologyBuilder("words", ack_partitions=1)
    builder.set_spout("lines", Lines)
    builder.set_bolt("split", Swallowing).shuffle_grouping("lines")
    builder.set_bolt("count", Sink, tasks=2).all_grouping("split")
    bench = Bench(builder.build(), sink=(sink := Ended()), pack_tuples=1_000)
    task = bench.bolt("split")
    pairs = under_seed([1, 2])
    for pair, trace in zip(pairs, ([("traceparent", b"00-1")], []), strict=True):
        execute(task, bench.pack("split", [("a",)], [pair], *trace))
    assert Swallowing.raised == 1
    sink.send = super(Ended, sink).send  # type: ignore[method-assign]
    task.flush()
    assert sink.checksums()[2] != pairs[1][2] ^ sent_edges(sink).get(2, 0)

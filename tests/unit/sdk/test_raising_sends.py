"""Errors in the middle of a send, and emits that come too late; `test_tangled_trees.py` has sends that raise."""

from functools import partial
from typing import Any

import pytest

from spout_sdk import ArrowBolt, ArrowCollector, TopologyBuilder, TupleAlreadyDoneError, declare
from spout_sdk.emitting import open_pack as open_packs
from spout_sdk.emitting import outbox as outboxes
from tests.packs import under_seed
from tests.unit.sdk.bolt_rig import Lines, Manual
from tests.unit.sdk.memory import Bench, execute
from tests.unit.sdk.outbox_rig import OutboxRig
from tuple_tree.input_batch import InputBatch


@pytest.mark.parametrize("sent_by", ["full pack", "flush"])
def test_tuples_whose_edges_cannot_be_drawn_are_sent_later_or_never_acked(
    sent_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox = OutboxRig(partitions=1, pack_tuples=2 if sent_by == "full pack" else 1_000)
    batch = InputBatch()
    places = [batch.begin(root) for root in (1, 2, 3)]
    outbox.add_row(("a", 1), [(batch, places[0])])

    def fails(*_: Any) -> Any:
        raise MemoryError

    add = partial(outbox.add_row, ("b", 2), [(batch, places[1])])
    with monkeypatch.context() as patch:
        patch.setattr(open_packs, "edge_column", fails)
        with pytest.raises(MemoryError):
            (add if sent_by == "full pack" else outbox.outbox.flush)()
    outbox.add_row(("c", 3), [(batch, places[2])])
    for place in places:
        outbox.outbox.acked.add(batch, place)
    outbox.outbox.flush()
    rows = {1, 3} if sent_by == "flush" else {1, 2, 3}
    sent = outbox.sink.edges()
    assert sent.keys() == rows
    assert {root: val for root, val in outbox.sink.checksums().items() if root in rows} == sent


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
def test_an_emit_that_comes_too_late_sends_no_ack_before_its_fails(
    bolt: Any, roots: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The acks that were not sent yet are removed, also if the fails are many and sent at once."""
    monkeypatch.setattr(outboxes, "_MOST_CHARACTERS", 1)
    builder = TopologyBuilder("words")
    builder.set_spout("lines", Lines)
    builder.set_bolt("split", bolt).shuffle_grouping("lines")
    bench = Bench(builder.build())
    task = bench.bolt("split")
    edges = under_seed(roots)
    execute(task, bench.pack("split", [("a",)] * len(edges), edges))
    task.flush()
    assert bench.sink.checksums() == {}
    assert bench.sink.failed().keys() == {5, 6, 7}

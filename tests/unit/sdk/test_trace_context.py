"""The trace that a message belongs to is handed on from tuple to tuple, and costs those that have none nothing."""

from typing import Any

import pytest

from spout_sdk import Spout, SpoutCollector, TaskContext, TaskId, TopologyBuilder, Tuple, declare
from spout_sdk.records import Headers
from tests.unit.sdk.bolt_rig import Sink, Split, rig
from tests.unit.sdk.kafka_spout_rig import Rig
from tests.unit.sdk.memory import Bench, made
from tests.unit.sdk.memory_source import MemoryTopics
from tuple_tree.anchors import pack_anchors

TRACEPARENT = ("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
OTHER = ("traceparent", b"00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
TRACESTATE = ("tracestate", b"vendor=1")
SOURCE = ("source", b"lines/default")


def given(bench: Bench, task: Any, edges: dict[int, int], *more: tuple[str, str | bytes | None]) -> None:
    """Executes a line with these anchors and headers."""
    anchors: Headers = [("anchors", pack_anchors(edges))] if edges else []
    task.execute(bench.raw("split", b"\x02a", [*anchors, SOURCE, *more], task=1))


@pytest.mark.parametrize("edges", [{7: 9}, {7: 9, 8: 5}, {}])
def test_a_bolt_hands_it_on(edges: dict[int, int]) -> None:
    bench, task, bolt = rig()
    given(bench, task, edges, ("x", b"1"), TRACESTATE, TRACEPARENT)
    (tuple_,) = bolt.tuples
    assert isinstance(tuple_, Tuple)
    assert tuple_.traceparent == TRACEPARENT[1].decode()
    assert (tuple_["line"], tuple_.edges) == ("a", edges)
    bolt.collector.emit(("w",), tuple_)
    (sent,) = bench.sink.tuples
    assert [name for name, _ in sent.headers[:-2]] == (["anchors", "source"] if edges else ["source"])
    assert sent.headers[-2:] == [TRACESTATE, TRACEPARENT]
    assert set(sent.edges) == set(edges)
    bolt.collector.ack(tuple_)
    task.flush()
    assert bench.sink.checksums() == {root: edge ^ sent.edges[root] for root, edge in edges.items()}


def test_a_basic_bolt_does_too() -> None:
    bench, task, _ = rig(Split)
    given(bench, task, {7: 9}, TRACEPARENT)
    assert bench.sink.tuples[0].headers[2:] == [TRACEPARENT]


def test_a_tuple_without_has_none_and_its_children_neither() -> None:
    bench, task, bolt = rig()
    given(bench, task, {7: 9})
    given(bench, task, {7: 9}, ("x", b"1"))
    for tuple_ in bolt.tuples:
        assert tuple_.__class__ is Tuple
        assert tuple_.traceparent is None
        bolt.collector.emit(("w",), tuple_)
    assert [[name for name, _ in sent.headers] for sent in bench.sink.tuples] == [["anchors", "source"]] * 2


def test_of_several_anchors_the_first_that_has_one_counts() -> None:
    bench, task, bolt = rig()
    given(bench, task, {1: 2})
    given(bench, task, {3: 4}, TRACEPARENT)
    given(bench, task, {5: 6}, OTHER)
    bolt.collector.emit(("w",), bolt.tuples)
    (sent,) = bench.sink.tuples
    assert set(sent.edges) == {1, 3, 5}
    assert sent.headers[2:] == [TRACEPARENT]


def test_an_emit_without_anchors_begins_anew() -> None:
    bench, task, bolt = rig()
    given(bench, task, {7: 9}, TRACEPARENT)
    bolt.collector.emit(("w",))
    assert bench.sink.tuples[0].headers == [("source", b"split/default")]


@pytest.mark.parametrize(
    ("headers", "handed_on"),
    [
        ([("traceparent", None)], []),
        ([("traceparent", b"x" * 129), TRACESTATE], [TRACESTATE]),
        ([("tracestate", b"x" * 512)], [("tracestate", b"x" * 512)]),
        ([TRACEPARENT, OTHER], [TRACEPARENT]),
        ([("traceparent", b"\xff")], [("traceparent", b"\xff")]),
    ],
)
def test_what_is_handed_on(headers: Headers, handed_on: Headers) -> None:
    bench, task, bolt = rig()
    given(bench, task, {7: 9}, *headers)
    bolt.collector.emit(("w",), bolt.tuples[0])
    assert bench.sink.tuples[0].headers[2:] == handed_on
    assert isinstance(bolt.tuples[0].traceparent, str | None)


def test_a_tuple_that_cannot_be_read_fails_its_tree_with_or_without() -> None:
    bench, task, _ = rig()
    task.execute(bench.raw("split", None, [("anchors", pack_anchors({7: 9})), SOURCE, TRACEPARENT], task=1))
    task.flush()
    assert [*bench.sink.failed()] == [7]
    (letter,) = bench.sink.to(".dead-letters")
    assert TRACEPARENT in letter.headers


@pytest.mark.parametrize("guarantee", ["at_least_once", "at_most_once"])
def test_a_kafka_spout_takes_it_from_the_message_each_time(guarantee: Any) -> None:
    topics = MemoryTopics(source=1)
    topics.add("source", 0, 0, b"a", headers=[("x", b"1"), TRACEPARENT, TRACESTATE])
    topics.add("source", 0, 1, b"b")
    spout = Rig(topics, guarantee=guarantee)
    spout.work()
    one, two = spout.bench.sink.tuples
    assert one.headers[-2:] == [TRACEPARENT, TRACESTATE]
    assert [name for name, _ in two.headers][-1] == "source"
    if guarantee == "at_least_once":
        spout.fail(0)
        spout.work(60)
        *_, again = spout.bench.sink.tuples
        assert again.headers[-2:] == [TRACEPARENT, TRACESTATE]
        assert again.edges != one.edges


class Own(Spout):
    streams = (declare({"line": str}), declare({"line": str}, name="direct", direct=True))

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        self.collector = collector

    def next_tuple(self) -> None:
        """Has nothing to emit."""


@pytest.mark.parametrize("message_id", ["m", None])
def test_a_spout_of_ones_own_may_give_it(message_id: str | None) -> None:
    spouts: list[Any] = []
    builder = TopologyBuilder("words")
    builder.set_spout("lines", made(spouts, Own))
    builder.set_bolt("sink", Sink).shuffle_grouping("lines").direct_grouping("lines", "direct")
    bench = Bench(builder.build())
    task = bench.spout("lines")
    spouts[-1].collector.emit(("a",), message_id, trace_context=[TRACEPARENT])
    spouts[-1].collector.emit_direct(TaskId("sink", 0), ("a",), message_id, "direct", trace_context=[TRACEPARENT])
    spouts[-1].collector.emit(("a",), message_id, trace_context=[])
    assert [sent.headers[-1][0] for sent in bench.sink.tuples] == ["traceparent", "traceparent", "source"]
    task.flush()
    assert bench.sink.checksums() == {root: edge for sent in bench.sink.tuples for root, edge in sent.edges.items()}

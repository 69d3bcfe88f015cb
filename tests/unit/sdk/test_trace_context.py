"""The trace context of a message is copied from tuple to tuple."""

from typing import Any

import pytest

from spout_sdk import Tuple
from spout_sdk.groupings import TaskId
from spout_sdk.records import Headers
from tests.packs import anchor_headers
from tests.unit.sdk.bench import Bench, Lines, rig
from tests.unit.sdk.kafka_spout_rig import Rig
from tests.unit.sdk.test_emitting import opened
from tuple_tree.payloads import encode_tuples, payload_codec

TRACEPARENT = ("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
OTHER = ("traceparent", b"00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
TRACESTATE = ("tracestate", b"vendor=1")
SOURCE = ("source", b"lines/default")
ONE = encode_tuples(payload_codec(Lines.streams[0]), [("a",)])


def given(bench: Bench, task: Any, edges: dict[int, int], *more: tuple[str, str | bytes | None]) -> None:
    """Executes a line with these anchors and headers."""
    bench.raw("split", ONE, [*anchor_headers([edges]), SOURCE, *more], task=1)
    task.flush()


@pytest.mark.parametrize("edges", [{7: 9}, {7: 9, 8: 9}, {}])
def test_a_bolt_copies_the_trace_context_to_its_tuples(edges: dict[int, int]) -> None:
    bench, task, bolt = rig()
    given(bench, task, edges, ("x", b"1"), TRACESTATE, TRACEPARENT)
    (tuple_,) = bolt.tuples
    assert (tuple_.traceparent, tuple_["line"], tuple_.edges) == (TRACEPARENT[1].decode(), "a", edges)
    bolt.collector.emit(("w",), anchors=tuple_)
    bolt.collector.emit(("w",))
    sent, unanchored = bench.sink.tuples
    assert [name for name, _ in sent.headers[:-2]] == [name for name, _ in [*anchor_headers([edges]), SOURCE]]
    assert sent.headers[-2:] == [TRACESTATE, TRACEPARENT]
    assert unanchored.headers == [("source", b"split/default")]
    bolt.collector.ack(tuple_)
    task.flush()
    assert bench.sink.checksums() == {root: edge ^ sent.edges[root] for root, edge in edges.items()}


def test_of_several_anchors_the_first_that_has_one_counts() -> None:
    bench, task, bolt = rig()
    given(bench, task, {1: 2}, ("x", b"1"))
    given(bench, task, {3: 4}, TRACEPARENT)
    given(bench, task, {5: 6}, OTHER)
    without = bolt.tuples[0]
    assert (without.__class__, without.traceparent) == (Tuple, None)
    bolt.collector.emit(("w",), anchors=bolt.tuples)
    bolt.collector.emit(("w",), anchors=without)
    sent, child = bench.sink.tuples
    assert (set(sent.edges), sent.headers[3:], child.headers[2:]) == ({1, 3, 5}, [TRACEPARENT], [])


@pytest.mark.parametrize(
    ("headers", "passed_on"),
    [
        ([("traceparent", None)], []),
        ([("traceparent", b"x" * 129), TRACESTATE], [TRACESTATE]),
        ([("tracestate", b"x" * 512)], [("tracestate", b"x" * 512)]),
        ([TRACEPARENT, OTHER], [TRACEPARENT]),
        ([("traceparent", b"\xff")], [("traceparent", b"\xff")]),
    ],
)
def test_headers_that_are_too_long_or_repeated_are_not_passed_on(headers: Headers, passed_on: Headers) -> None:
    bench, task, bolt = rig()
    given(bench, task, {7: 9}, *headers)
    bolt.collector.emit(("w",), anchors=bolt.tuples[0])
    assert bench.sink.tuples[0].headers[2:] == passed_on
    assert isinstance(bolt.tuples[0].traceparent, str | None)


@pytest.mark.parametrize("guarantee", ["at_least_once", "at_most_once"])
def test_a_kafka_spout_copies_the_trace_context_of_each_message(guarantee: Any) -> None:
    spout = Rig(guarantee=guarantee)
    spout.add(b"a", headers=[("x", b"1"), TRACEPARENT, TRACESTATE])
    spout.add(b"b")
    spout.work()
    one, two = spout.sink.tuples
    assert (one.headers[-2:], two.headers[-1][0]) == ([TRACEPARENT, TRACESTATE], "source")
    if guarantee == "at_least_once":
        spout.fail(0)
        spout.work(60)
        *_, again = spout.sink.tuples
        assert (again.headers[-2:], again.edges != one.edges) == ([TRACEPARENT, TRACESTATE], True)


@pytest.mark.parametrize("message_id", ["m", None])
def test_a_spout_may_emit_with_a_trace_context(message_id: str | None) -> None:
    bench, task, spout = opened()
    spout.collector.emit(("a",), message_id=message_id, trace_context=[TRACEPARENT])
    spout.collector.emit_direct(
        TaskId("one", 0), ("a",), message_id=message_id, stream="named", trace_context=[TRACEPARENT]
    )
    spout.collector.emit(("a",), message_id=message_id, trace_context=[])
    assert [sent.headers[-1][0] for sent in bench.sink.tuples] == ["traceparent"] * 6 + ["source"] * 5
    task.flush()
    assert bench.sink.checksums() == bench.sink.edges()
    assert bool(bench.sink.edges()) == (message_id is not None)

"""Trees as `acker trace --json` prints them become spans; `trace.json` holds an open one and one that failed."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import xxhash
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode

from inspection import otel

ROOT = 0x0123456789ABCDEF
TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture
def printed() -> dict[str, Any]:
    read: dict[str, Any] = json.loads((Path(__file__).parent / "trace.json").read_text())
    return read


def spans_of(printed: dict[str, Any]) -> list[ReadableSpan]:
    return [span for tree in printed["trees"] for span in otel.spans_of(printed["topology"], tree)]


def by_name(spans: list[ReadableSpan]) -> dict[tuple[Any, Any], ReadableSpan]:
    """By service and task; the task of a root's is None."""
    return {
        (span.resource.attributes["service.name"], attributes_of(span).get("messaging.destination.partition.id")): span
        for span in spans
    }


def attributes_of(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def ids_of(span: ReadableSpan) -> tuple[int, int, int | None]:
    """Trace, span, parent."""
    return span.context.trace_id, span.context.span_id, span.parent and span.parent.span_id


def times_of(span: ReadableSpan) -> tuple[int, int]:
    return span.start_time or 0, span.end_time or 0


def test_a_tree_is_a_trace_and_a_tuple_a_span(printed: dict[str, Any]) -> None:
    trace_id = xxhash.xxh64_intdigest(b"words", 42) << 64 | ROOT
    spans = by_name([span for span in spans_of(printed) if attributes_of(span)["acker.root"] == f"{ROOT:016x}"])
    root, split = spans["lines", None], spans["split", "0"]
    acked, stuck = spans["count", "0"], spans["count", "1"]
    assert (*ids_of(root), root.kind.name, split.kind.name) == (trace_id, ROOT, None, "PRODUCER", "CONSUMER")
    assert ids_of(split) == (trace_id, 0x91B7584A2265B1F5, ROOT)
    for each in (acked, stuck):
        assert ids_of(each)[::2] == (trace_id, split.context.span_id)
    assert times_of(root) == times_of(split) == (1_000_000_000, 1_007_000_000)
    start_ns, end_ns = times_of(stuck)
    assert (attributes_of(stuck)["acker.state"], end_ns - start_ns) == ("open", 0)
    assert attributes_of(stuck)["messaging.destination.name"] == "words.tuples.count"
    assert not any(span.status.status_code is StatusCode.ERROR for span in spans.values())


def test_a_tree_that_failed_is_an_error_and_further_parents_are_links(printed: dict[str, Any]) -> None:
    (root,) = (span for span in spans_of(printed) if span.context.span_id == 7)
    assert root.status.status_code is StatusCode.ERROR
    assert root.status.description == attributes_of(root)["acker.verdict"]
    tuples = printed["trees"][0]["tuples"]
    tuples[2]["parents"] = ["split/0@1", "count/0@1"]
    stuck = by_name(spans_of(printed))["count", "1"]
    assert ids_of(stuck)[2] == int(tuples[0]["edge"], 16)
    assert [link.context.span_id for link in stuck.links] == [int(tuples[1]["edge"], 16)]


def test_unusable_parts_of_a_trace_are_skipped(printed: dict[str, Any]) -> None:
    before = [span.to_json() for span in spans_of(copy.deepcopy(printed))]
    for traceparent in ("", f"ff-{TRACE}-b7ad6b7169203331-01", f"00-{'0' * 32}-{'1' * 16}-01"):
        printed["trees"][0]["tuples"][0]["traceparent"] = traceparent
        assert [span.to_json() for span in spans_of(printed)] == before
    # The clock of the process that emitted it may be ahead.
    printed["trees"][0]["tuples"][0]["emitted_ms"] = 99_000
    assert all(start <= end for start, end in map(times_of, spans_of(printed)))
    # Neither a trace nor a span may have the id zero.
    printed["trees"][1]["root"] = "0" * 16
    assert all(ids_of(span)[0] and ids_of(span)[1] for span in spans_of(printed))

"""Trees as `acker trace --json` prints them become spans; `trace.json` holds an open one and one that failed."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import xxhash

from inspection.errors import SpansError
from inspection.otel.spans import Span, spans_of

ROOT = 0x0123456789ABCDEF
TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture
def printed() -> dict[str, Any]:
    read: dict[str, Any] = json.loads((Path(__file__).parent / "trace.json").read_text())
    return read


def by_name(spans: list[Span]) -> dict[tuple[str, int | str], Span]:
    return {(span.service, span.attributes.get("messaging.destination.partition.id", "")): span for span in spans}


def test_a_tree_is_a_trace_and_a_tuple_a_span(printed: dict[str, Any]) -> None:
    spans = by_name([span for span in spans_of(printed) if span.attributes["acker.root"] == f"{ROOT:016x}"])
    root, split = spans["lines", ""], spans["split", "0"]
    acked, stuck = spans["count", "0"], spans["count", "1"]
    assert {span.trace_id for span in spans.values()} == {xxhash.xxh64_intdigest(b"words", 42) << 64 | ROOT}
    assert (root.span_id, root.parent_id, root.is_root) == (ROOT, None, True)
    assert (split.span_id, split.parent_id) == (0x91B7584A2265B1F5, ROOT)
    assert acked.parent_id == stuck.parent_id == split.span_id
    assert (split.start_ns, split.end_ns) == (1_000_000_000, 1_007_000_000)
    assert (root.start_ns, root.end_ns) == (1_000_000_000, 1_007_000_000)
    assert (stuck.attributes["acker.state"], stuck.end_ns - stuck.start_ns) == ("open", 0)
    assert stuck.attributes["messaging.destination.name"] == "words.tuples.count"
    assert not any(span.error for span in spans.values())


def test_a_tree_that_failed_is_an_error_and_further_parents_are_links(printed: dict[str, Any]) -> None:
    (root,) = (span for span in spans_of(printed) if span.is_root and span.span_id == 7)
    assert root.error == root.attributes["acker.verdict"]
    tuples = printed["trees"][0]["tuples"]
    tuples[2]["parents"] = ["split/0@1", "count/0@1"]
    stuck = by_name(spans_of(printed))["count", "1"]
    assert (stuck.parent_id, stuck.links) == (int(tuples[0]["edge"], 16), (int(tuples[1]["edge"], 16),))


def test_unusable_parts_of_a_trace_are_skipped(printed: dict[str, Any]) -> None:
    before = spans_of(copy.deepcopy(printed))
    for traceparent in ("", f"ff-{TRACE}-b7ad6b7169203331-01", f"00-{'0' * 32}-{'1' * 16}-01"):
        printed["trees"][0]["tuples"][0]["traceparent"] = traceparent
        assert spans_of(printed) == before
    # The clock of the process that emitted it may be ahead.
    printed["trees"][0]["tuples"][0]["emitted_ms"] = 99_000
    assert all(span.end_ns >= span.start_ns for span in spans_of(printed))
    # Neither a trace nor a span may have the id zero.
    printed["trees"][1]["root"] = "0" * 16
    assert all(span.trace_id and span.span_id for span in spans_of(printed))
    others: tuple[dict[str, Any], ...] = ({}, {"topology": "t", "trees": [{}]}, {"topology": "t", "trees": 5})
    for other in others:
        with pytest.raises(SpansError, match="acker trace --json"):
            spans_of(other)

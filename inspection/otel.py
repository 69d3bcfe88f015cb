"""Tuple trees as OpenTelemetry traces: `acker trace --otlp`, see `docs/how-to/export-traces.md`.

The ids follow from the tree, so a tree that is sent twice has the same spans. A tuple that is in several trees has a
span for each. Needs the extra `kafka-acker[otel]`, so no other module imports this one.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import xxhash

from inspection.errors import SpansError
from tuple_tree.headers import TRACEPARENT

try:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExportResult
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags
except ImportError as error:
    raise SpansError(
        f"OpenTelemetry is not installed ({error.name}): pip install 'kafka-acker[otel]', and repeat the command"
    ) from error

_SCOPE: Final = InstrumentationScope("kafka-acker")
_UNSET: Final = Status(StatusCode.UNSET)
_TRACEPARENT: Final = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")
_SEED: Final = 42
_NS: Final = 1_000_000


def send_trees(topology: str, printed: Iterable[Mapping[str, Any]]) -> int:
    """Sends trees to the collector of `OTEL_EXPORTER_OTLP_ENDPOINT`, a request for each; returns the number of spans.

    Its timeout is OpenTelemetry's, too: 10 s, or `OTEL_EXPORTER_OTLP_TIMEOUT`.
    """
    exporter, sent = OTLPSpanExporter(), 0
    try:
        for tree in printed:
            spans = spans_of(topology, tree)
            if spans and exporter.export(spans) is not SpanExportResult.SUCCESS:
                raise SpansError(
                    "the collector did not accept the spans: check OTEL_EXPORTER_OTLP_ENDPOINT, and repeat the "
                    "command, which sends the same spans again"
                )
            sent += len(spans)
    finally:
        exporter.shutdown()  # type: ignore[no-untyped-call]
    return sent


def spans_of(topology: str, tree: Mapping[str, Any]) -> list[ReadableSpan]:
    """The spans of a tree, as `acker trace --json` has it; that of its root is of kind `PRODUCER`."""
    return [*_of_tree(topology, tree)]


def _of_tree(topology: str, tree: Mapping[str, Any]) -> Iterator[ReadableSpan]:
    root = int(tree["root"], 16)
    tuples: Sequence[Mapping[str, Any]] = tree["tuples"]
    if not tuples and tree["began_ms"] is None:
        return
    # Neither a trace nor a span may have the id 0.
    first_id = root or 1
    own_trace = xxhash.xxh64_intdigest(topology.encode(), _SEED) << 64 | root or 1, None
    trace_id, parent_of_root = _joined(tuples) or own_trace

    def span(
        span_id: int,
        parents: Sequence[int | None],
        names: tuple[str, str],
        times_ms: tuple[int, int],
        kind: SpanKind,
        attributes: Mapping[str, Any],
        status: Status = _UNSET,
    ) -> ReadableSpan:
        context, parent, *others = [
            None if each is None else SpanContext(trace_id, each, False, TraceFlags(TraceFlags.SAMPLED))
            for each in (span_id, *parents)
        ]
        service, name = names
        return ReadableSpan(
            name,
            context,
            parent,
            Resource({"service.namespace": topology, "service.name": service}),
            {"messaging.system": "kafka", "acker.topology": topology, "acker.root": tree["root"], **attributes},
            links=[Link(other) for other in others if other is not None],
            kind=kind,
            status=status,
            start_time=times_ms[0] * _NS,
            # The end may be by another clock.
            end_time=max(times_ms) * _NS,
            instrumentation_scope=_SCOPE,
        )

    times = [each["emitted_ms"] for each in tuples] + [entry["at_ms"] for entry in tree["log"]]
    began_ms = min(times) if tree["began_ms"] is None else tree["began_ms"]
    # One that is open ends with its last known record.
    ended_ms = max([began_ms, *times]) if tree["ended_ms"] is None else tree["ended_ms"]
    yield span(
        first_id,
        [parent_of_root],
        (tree["spout"] or "unknown", f"tree of {tree['spout'] or topology}"),
        (began_ms, ended_ms),
        SpanKind.PRODUCER,
        {"acker.status": tree["status"], "acker.verdict": tree["verdict"], "acker.tuples": len(tuples)},
        Status(StatusCode.ERROR, str(tree["verdict"])) if tree["status"] == "failed" else _UNSET,
    )
    ids = {each["tuple"]: int(each["edge"], 16) for each in tuples}
    for each in tuples:
        bolt, emitted_ms = each["bolt"], each["emitted_ms"]
        yield span(
            ids[each["tuple"]],
            [ids[parent] for parent in each["parents"]] or [first_id],
            (bolt, f"{bolt} process"),
            (emitted_ms, max((ack["at_ms"] for ack in each["acks"]), default=emitted_ms)),
            SpanKind.CONSUMER,
            # Names are of OpenTelemetry's conventions for messaging where there are such, else `acker.…`.
            {
                "messaging.operation.type": "process",
                "messaging.destination.name": f"{topology}.tuples.{bolt}",
                "messaging.destination.partition.id": str(each["task"]),
                "messaging.kafka.offset": each["offset"],
                "acker.source": f"{each['source']}/{each['stream']}",
                "acker.state": each["state"],
                "acker.parents": each["parents_are"],
                "acker.executions": len(each["acks"]),
                "acker.preview": each["preview"],
            },
        )


def _joined(tuples: Sequence[Mapping[str, Any]]) -> tuple[int, int] | None:
    """The trace and the span in the `traceparent` of the spout's tuples; None if there is none."""
    for each in (one for one in tuples if not one["parents"]):
        match = _TRACEPARENT.fullmatch(each.get(TRACEPARENT) or "")
        if match and int(match[1], 16) and int(match[2], 16):
            return int(match[1], 16), int(match[2], 16)
    return None

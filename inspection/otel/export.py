"""Sends spans by OTLP over HTTP."""

from collections.abc import Iterable

from inspection.errors import SpansError
from inspection.otel.spans import Span

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

_SCOPE = InstrumentationScope("kafka-acker")


class SpanSender:
    """A connection to a collector, by default that of `OTEL_EXPORTER_OTLP_ENDPOINT`.

    Its timeout is OpenTelemetry's, too: 10 s, or `OTEL_EXPORTER_OTLP_TIMEOUT`.
    """

    def __init__(self, endpoint: str | None = None) -> None:
        self._exporter = OTLPSpanExporter(endpoint=endpoint)

    def send(self, topology: str, spans: Iterable[Span]) -> None:
        if self._exporter.export([_readable(topology, span) for span in spans]) is not SpanExportResult.SUCCESS:
            raise SpansError(
                "the collector did not accept the spans: check --endpoint or OTEL_EXPORTER_OTLP_ENDPOINT, and repeat "
                "the command, which sends the same spans again"
            )

    def close(self) -> None:
        self._exporter.shutdown()  # type: ignore[no-untyped-call]


def _readable(topology: str, span: Span) -> ReadableSpan:
    def context(span_id: int) -> SpanContext:
        return SpanContext(span.trace_id, span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))

    return ReadableSpan(
        span.name,
        context=context(span.span_id),
        parent=None if span.parent_id is None else context(span.parent_id),
        resource=Resource({"service.namespace": topology, "service.name": span.service}),
        attributes=dict(span.attributes),
        links=[Link(context(link)) for link in span.links],
        kind=SpanKind.PRODUCER if span.is_root else SpanKind.CONSUMER,
        instrumentation_scope=_SCOPE,
        status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET),
        start_time=span.start_ns,
        end_time=span.end_ns,
    )

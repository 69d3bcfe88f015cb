"""`acker otel`."""

from acker_cli.commands.options import command, option


@command(
    "otel",
    ("acker trace --last-failed 20 --json | acker otel", "trees that failed lately, as traces"),
    (
        "acker trace 3f2a9c04d1e87b65 --json | acker otel --endpoint http://localhost:4318/v1/traces",
        "one tree, to a collector on this machine",
    ),
)
def otel(
    endpoint: str | None = option(
        "URL", "Where spans are taken, by OTLP over HTTP [dim](OTEL_EXPORTER_OTLP_ENDPOINT)[/]."
    ),
) -> None:
    r"""Send tuple trees to OpenTelemetry: what acker trace --json prints, from standard input.

    A tree becomes a trace, a tuple a span from when it was emitted to its ack. Nothing of it touches a running
    topology. Needs the extra otel: pip install "kafka-acker\[otel]".
    """
    import json
    import sys

    from acker_cli.console import standard_error, standard_output
    from acker_cli.interruption import interruptible
    from inspection.errors import SpansError
    from inspection.otel import SpanSender, spans_of

    sent = traces = 0
    with interruptible(), standard_error().status("sending spans …") as status:
        sender = SpanSender(endpoint)
        try:
            for line in filter(str.strip, sys.stdin):
                try:
                    printed = json.loads(line)
                except ValueError as error:
                    raise SpansError(
                        f"standard input is no JSON ({error}): acker trace … --json | acker otel"
                    ) from error
                spans = spans_of(printed)
                if spans:
                    sender.send(spans)
                sent += len(spans)
                traces += sum(span.kind.name == "PRODUCER" for span in spans)
                status.update(f"sent {sent:,} spans …")
        finally:
            sender.close()
    standard_output().print(f"sent {sent:,} spans of {traces:,} trees")

"""Tuple trees as OpenTelemetry traces: the output of `acker trace --json` becomes spans.

- `spans`: trees in, spans out; pure, without OpenTelemetry.
- `export`: sends spans by OTLP over HTTP; needs the extra `kafka-acker[otel]`, which no other module imports.
"""

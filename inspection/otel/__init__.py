"""Tuple trees as OpenTelemetry traces: what `acker trace --json` prints becomes spans.

Off every hot path: trees are read from Kafka, and a topology knows nothing of it.

  `spans`: trees in, spans out; pure, without OpenTelemetry.
  `export`: sends spans by OTLP over HTTP; needs the extra `kafka-acker[otel]`, and is the only one that imports it.
"""

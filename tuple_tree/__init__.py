"""The domain of tuple-tree acking, pure: no Kafka, no clock, no I/O.

Rooms:

- `ids`: random edge and root ids, positional root ids, packing of id columns.
- `anchors`: the `anchors` header, anchoring and ack vals.
- `messages`: ack batches and notice batches; `codec`: their Avro form (contract in `schemas/`).
- `routing`: which acker partition owns a root, which task a key belongs to.
- `names`: what topologies, components and topics may be called; `topics`: topic specs of a topology.
- `manifest`: what a topology is, as published in `acker.topologies`.
- `streams`: the payload codecs of a stream (Avro, JSON, bytes).
- `rotating_map`: a map whose entries expire in cohorts; `offsets`: which source offsets are still open.
- `process_stats`: the statistics of a process, sent once a second; `latency`: durations in it; `stall`: work without
  progress.
- `trace_context`: the trace that a message belongs to, handed on from tuple to tuple.
- `dead_letters`: what is written beside a record that could not be used.
- `errors`: the base class of everything raised here.
"""

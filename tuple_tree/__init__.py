"""The domain of tuple-tree acking, pure: no Kafka, no clock, no I/O.

- `ids`: random edge and root ids, packing of id columns; `positions`: positional root ids.
- `anchors`: the `anchors` header, anchoring and ack vals; `anchor_columns`: the same in columns.
- `messages`: ack batches and notice batches; `codec`: their Avro form (contract in `schemas/`).
- `routing`: which acker partition owns a root, which task a key belongs to; `column_routing`: the same in columns.
- `names`: what topologies, components and topics may be called; `topics`: topic specs of a topology.
- `manifest`: what a topology is, as published in `acker.topologies`.
- `streams`: declared streams; `payloads`, `packs`: their codecs.
- `rotating_map`: a map whose entries expire in cohorts; `offsets`, `source_positions`: open offsets of a source.
- `process_stats`: the statistics of a process, sent once a second; `latency`: durations; `stall`: no progress.
- `trace_context`: trace headers, handed on from tuple to tuple; `dead_letters`: headers of dead letters.
- `errors`: the base class of everything raised here.
"""

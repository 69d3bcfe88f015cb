"""Tuple trees: records of one root in, its tree and a verdict out. Pure: no Kafka, no clock.

- `records`: the records of a root, as plain values; `sightings` finds them in ack batches, notices and inboxes.
- `families`: which ack belongs to which tuple, and which tuples are its children.
- `tree`: the tree, with what is open; `verdict`: one sentence about it; `as_json`: the tree as JSON.
- `roots`: root ids as text.

`inspection.trace_reader` reads Kafka.
"""

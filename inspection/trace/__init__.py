"""Tuple trees: records of one root in, its tree and a verdict out. Pure: no Kafka, no clock.

- `records`: the records of a root, found in ack batches, notices and inboxes.
- `ack_matching`: which ack belongs to which tuple, and which tuples are its children.
- `tree`: the tree, with what is open; `output`: one sentence about it, and its JSON.
"""

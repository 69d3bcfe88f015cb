"""The spout side.

- `spout_task`: one task, without I/O; `source`: calls a spout.
- `spout`: `Spout`, and its collector; `row_emitter`: emits many messages at once; `tree_batches`: the batches of
  new trees; `pending`: the open trees.
"""

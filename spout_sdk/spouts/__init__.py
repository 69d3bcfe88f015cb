"""The spout side.

- `spout_task`: one task, without I/O; `adapters`: call a spout, by its kind.
- `spout_collector`: emits tuples of a spout; `row_emitter`: emits many messages at once; `tree_batches`: the batches of
  new trees; `pending`: the open trees.
"""

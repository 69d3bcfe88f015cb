"""The spout side.

- `spout_task`: one task, without I/O; `adapters`: call a spout, by its kind.
- `spout_collector`: what it emits through; `row_emitter`: the same for many messages; `tree_batches`: the trees that it
  begins; `pending`: its open trees.
"""

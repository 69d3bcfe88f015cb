"""The spout side.

- `spout_task`: one task, without I/O; `adapters`: call a spout, by its kind.
- `spout_collector`: what it emits through; `pending`: its open trees.
"""

"""The spout side.

- `spout_task`: one task, without I/O; `spout_collector`: what it emits through; `pending`: its open trees.
"""

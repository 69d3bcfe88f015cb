"""Parts that all tasks share.

- `task`: the base of tasks, and when they flush.
- `emitter`: the base of the collectors, which add tuples to packs; `emit_plan`: the packs of a stream.
- `outbox`: what a task sends, and in which order; `transactional_outbox`: what waits for its input; `open_pack`: tuples
  that are not sent yet; `ack_log`: ack batches; `chained_trees`: the inits of a spout with chained bolts.
- `dead_letters`: records that cannot be used.
- `open_inputs`: open packs of a step, and when they expire; `input_offsets`: those of a task's input, and which offsets
  may be committed.
"""

"""Parts that all tasks share.

- `task`: the base of tasks, and when they flush.
- `emitter`: the base of the collectors, which check tuples; `emit_plan`: the packs of a stream; `buffer`: adds tuples,
  rows and columns to packs; `open_pack`: tuples for one task that are not sent yet.
- `outbox`: what a task sends, and in which order; `transactional_outbox`: what waits for its input; `ack_log`: ack
  batches; `chained_trees`: the inits of a spout with chained bolts.
- `dead_letters`: records that cannot be used.
- `open_inputs`: open packs of a step, and when they expire; `input_offsets`: those of a task's input, and which offsets
  may be committed.
"""

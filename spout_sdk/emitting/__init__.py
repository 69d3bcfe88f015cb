"""Parts that all tasks share.

- `task`: the base of both tasks: sessions, flushes and their timing.
- `emitter`: emit plans, and the base of the collectors.
- `packer`: open packs of tuples; `ack_buffer`: ack batches; `dead_letters`: records that cannot be used.
- `input_offsets`: open records of the input, and which offsets may be committed.
"""

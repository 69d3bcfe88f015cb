"""What all tasks share: emit plans, packs of tuples, ack batches, sessions, dead letters, input offsets, flushes."""

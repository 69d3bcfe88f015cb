"""What all tasks share: groupings, packs of tuples, ack batches, sessions, dead letters, input offsets, flushes."""

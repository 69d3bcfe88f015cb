"""The way out of a task: groupings, packs of tuples, ack batches, sessions, dead letters, and when they are flushed."""

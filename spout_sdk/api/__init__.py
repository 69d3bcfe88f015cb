"""What users write against: components, tuples, the context of a task, hooks."""

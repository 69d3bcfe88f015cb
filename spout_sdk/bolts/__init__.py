"""The bolt side: the logic of a task, its reader, executor and collectors."""

"""Loops, processes and supervisors that run tasks.

- `spout_loop`, `bolt_loop`: the loops; `task_loop`: what they share.
- `backlog`: what a bolt has yet to execute; `read_size`: how many
  records are read at once.
- `execute_watch`: calls of `execute` that take long; `periodic_resets`: when the trees that wait for these, or for
  paused tasks, are reset; `timeout_resets`: resets them.
- `reading_pauses`: partitions that are not read now.
- `share_watch`: sets the shares of tasks in shuffle groupings.
- `component_runner`: one component in this process and thread; `process`: the same as a program.
- `supervisor`: a whole topology, each component in processes of its own.
"""

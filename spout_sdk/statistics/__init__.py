"""Statistics of a process.

- `stats`: counters, and their snapshot as a record; `state_stats`: the part of it that is of states.
- `metrics`: the same for Prometheus; `task_shares`: the shares of a bolt's tasks in shuffle groupings.
"""

"""Statistics of a process.

- `stats`: counters, and snapshots of them; `state_stats`: the part of a snapshot about states.
- `metrics`: Prometheus metrics of snapshots; `task_shares`: the shares of a bolt's tasks in shuffle groupings.
"""

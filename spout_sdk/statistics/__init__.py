"""Statistics of a process.

    from spout_sdk.statistics import Stats

- `stats`: counters, and snapshots of them; `state_stats`: the part of a snapshot about states.
- `metrics`: Prometheus metrics of snapshots; `task_shares`: the shares of a bolt's tasks in shuffle groupings.
"""

from spout_sdk.statistics.stats import Counters, Stats
from tuple_tree.latency import LatencyHistogram

__all__ = [
    "Counters",
    "LatencyHistogram",
    "Stats",
]

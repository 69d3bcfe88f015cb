"""Loops, processes and supervisors that run tasks.

    from spout_sdk.runtime import TopologyRunner

- `spout_loop`, `bolt_loop`: the loops; `task_loop`: their common base.
- `backlog`: records and tuples that a bolt has read and not executed; `read_size`: how many records are read at once.
- `execute_watch`: watches calls of `execute` that take long; `periodic_resets`: decides when the trees that wait for
  such a call, or for a paused task, are reset; `timeout_resets`: sends the resets.
- `reading_pauses`: partitions whose reading is paused.
- `share_watch`: sets the shares of tasks in shuffle groupings.
- `component_runner`: runs one component in this thread; `worker`: runs several, each in a thread; `process`: a program
  of a worker.
- `supervisor`: runs a whole topology in worker processes.
"""

from spout_sdk.runtime.component_runner import ComponentRunner
from spout_sdk.runtime.supervisor import Exit, TopologyRunner

__all__ = [
    "ComponentRunner",
    "Exit",
    "TopologyRunner",
]

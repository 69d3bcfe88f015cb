"""Keyed state of bolts: a value for each key, which each tuple changes once.

    from spout_sdk.state import StatefulBolt, StateView, keyed_state

- `spec`: the declaration of a state, and the base of bolts with one; `bolt`: `StatefulBolt`; `deletion`: how a
  bolt deletes a key
- `keyed_operator`: calls a bolt with a value for each key; `state_operator`: calls a `StatefulBolt`; `collectors`: its
  collector
- `task_state`: the state of a task; `table`: its values
- `process_states`: restores and writes the states of the tasks of a process
- `known_done`: the done positions of source partitions
- `watermarks`: the watermark of a task, which is the event time before which no further tuple comes
- `applied`: the identities of the tuples that a task has applied
- `stores`: the local copy of a partition of the changelog, in memory; `rocks_store`: on disk
- `restore`: reads changelogs into stores
- `done_positions`: reads the commits of the spouts upstream
- `source_topics`: checks that the positions in a changelog belong to the source topics that exist now
- `view`: a read-only view of a state for programs
"""

from spout_sdk.state.bolt import StatefulBolt
from spout_sdk.state.collectors import StateCollector
from spout_sdk.state.deletion import DELETE
from spout_sdk.state.spec import keyed_state
from spout_sdk.state.view import StateEntry, StateView

__all__ = [
    "DELETE",
    "StateCollector",
    "StateEntry",
    "StateView",
    "StatefulBolt",
    "keyed_state",
]

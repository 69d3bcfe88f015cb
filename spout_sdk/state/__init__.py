"""Keyed state of bolts: a value for each key, which each message changes once.

- `spec`: what a bolt declares as its state; `bolt`: the bolts that users derive
- `adapter`: how a task calls a `StatefulBolt`; `arrow_adapter`: a `StatefulArrowBolt`
- `collectors`: their collectors
- `task_state`: the state of a task; `table`: its values
- `process_states`: restores and writes the states of the tasks of a process
- `identity_table`: a hash table of identities
- `known_done`: the done positions of source partitions
- `watermarks`: of a task, the event time before which no further tuple comes
- `applied`: of a task, the identities that its state has
- `stores`: the local copy of a partition of the changelog, in memory; `rocks_store`: on disk
- `restore`: reads changelogs into stores
- `done_positions`: reads what the spouts upstream have committed
- `source_topics`: checks that the positions in a changelog are of the source topics that exist now
- `view`: a state for programs that read it
"""

import spout_sdk.state.adapter
import spout_sdk.state.arrow_adapter  # noqa: F401 - register themselves

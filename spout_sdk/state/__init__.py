"""Keyed state of bolts: the identities that a task has applied, and the positions that are known to be done.

- `identity_table`: a hash table of identities
- `known_done`: the done positions of source partitions
- `watermarks`: of a task, the event time before which no further tuple comes
- `applied`: of a task, the identities that its state has
- `stores`: the local copy of a partition of the changelog, in memory; `rocks_store`: on disk
- `restore`: reads changelogs into stores
- `done_positions`: reads what the spouts upstream have committed
- `source_topics`: compares source topics with those of which a changelog has positions
- `view`: a state for programs that read it
"""

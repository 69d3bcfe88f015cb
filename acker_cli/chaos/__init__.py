"""Faults in a running topology, and the check that no message was lost by them: `acker chaos`.

- `faults`: kills, suspends and terminates processes and the embedded broker, drawn by a seed.
- `feeder`: writes messages to source topics while the faults happen.
- `sources`: the messages of a run, and which are done.
- `tree_log`: the ack log, folded once, and the notices; `checks`: compares them with the messages of the sources.
- `settling`: waits until nothing is open. `run`: the run, and its report.
"""

"""Random faults over running topologies, with a checker that does not trust what they say of themselves.

`python -m tests.chaos --minutes 10` or `make chaos SEED=… MINUTES=…`:

- `arena`: what happened to each message, in memory that all processes share and no kill takes away
- `topologies`: the spouts and bolts under test, with each guarantee
- `faults`: kills, stops and pauses of processes and of the broker
- `checks`: what was promised, held against the arena and the topics
- `__main__`: the run, and its report as JSON
"""

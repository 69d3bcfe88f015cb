"""Random faults over running topologies, with a checker that is independent of what they publish.

`python -m tests.chaos --minutes 10` or `make chaos SEED=… MINUTES=… BROKERS=3 SPARK=1`:

- `arena`: what happened to each message, in memory that all processes share and no kill takes away
- `topologies`: the spouts and bolts under test, with each guarantee; `troubled`: components that raise now and then;
  `stateful`: those with a state
- `targets`: a topology with everything that runs for it
- `brokers`: one broker, or three in containers, and their faults
- `faults`: those of `acker chaos`, of all processes and brokers, and more
- `checks`: compares the arena and the topics with what was promised, besides the check of `acker chaos`
- `__main__`: the run, and its report as JSON
"""

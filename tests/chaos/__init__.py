"""Random faults over running topologies, with a checker that is independent of what they publish.

`python -m tests.chaos --minutes 10` or `make chaos SEED=… MINUTES=… BROKERS=3 SPARK=1`:

- `arena`: what happened to each message, in memory that all processes share and no kill takes away
- `components`: spouts and bolts of numbered messages; `troubled`: others that raise now and then; `stateful`: a state
- `topologies`: of them, with each guarantee; `targets`: a topology with everything that runs for it
- `brokers`: one broker, or three in containers, and their faults
- `faults`: those of `acker chaos`, of all processes and brokers, and more
- `checks`: compares the arena and the topics with what was promised, besides the check of `acker chaos`
- `__main__`: the run, and its report as JSON
"""

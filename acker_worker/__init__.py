"""The acker: follows the tuple trees of a topology, and notifies each spout of their outcomes.

Modules, from the inside out:

- `kernels`: the rules, compiled, over one flat table; `ledger`: that table, its spouts and its cohorts.
- `sessions`: which ack batches are repeats; `progress`: what is committed beside an offset.
- `fold`: records of one partition in, notices out, without Kafka and without a clock; collects entries for the kernels.
- `owned`: the state of the loop around a fold.
- `acker_loop`: polls, folds, sends and commits, as a member of the consumer group; `notifier`: delivers notices.
- `worker`: the loop in a process; `stats`: what it did; `metrics`: the same for Prometheus.
- `service`: all topologies in one process, the worker of each in a thread.
- `errors`: the hierarchy.
"""

"""The acker: follows the tuple trees of a topology, and notifies each spout of their outcomes.

Modules, from the inside out:

- `kernels`: the rules, compiled, over one flat table; `ledger`: that table, its spouts and its cohorts, and entries
  that wait for the kernels.
- `sessions`: which ack batches are repeats; `progress`: what is committed beside an offset.
- `fold`: records of one partition in, notices out, without Kafka and without a clock.
- `owned`: what the worker knows around a fold.
- `worker`: polls, folds, sends and commits; `ack_log`: its place in the consumer group; `notifier`: delivers notices;
  `stats`: what it did; `metrics`: the same for Prometheus.
- `service`: all topologies in one process, the worker of each in a thread.
- `errors`: the hierarchy.
"""

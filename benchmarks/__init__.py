"""Benchmarks: each prints JSON, compares by ratio within one run, and keeps its figures in `benchmarks/results`.

`harness` has flags, rounds and results, `topics` the broker, `processes`, `topologies` and `contestants` (of the word
count) what runs, `setup` and `peers` the peers, and `report` makes `docs/benchmarks.md`. The other modules are
benchmarks: `python -m benchmarks.NAME`.
"""

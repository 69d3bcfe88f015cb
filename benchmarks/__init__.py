"""Benchmarks: each prints JSON, compares within one run, and keeps its figures in `benchmarks/results`.

`harness` has options, rounds and results, `topics` the broker, `processes` what runs, `comparison` the contestants and
rounds of `word_count` (topology in `topologies`) and `pipeline` (in `clicks`), `setup` and `peers` the peers, `guard`
the ratios that CI checks, and `report` makes `docs/benchmarks.md`. The other modules are benchmarks:
`python -m benchmarks.NAME`.
"""

"""Statistics of a process.

- `stats`: counters, and their snapshot as a record; `metrics`: the same for Prometheus.
"""

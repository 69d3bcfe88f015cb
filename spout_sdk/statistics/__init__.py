"""Statistics of a process.

- `stats`: counters, and their snapshot as a record; `metrics`: the same for Prometheus.
- `repetition`: exceptions that repeat, and which of them are logged.
"""

"""Counters of a process, their snapshot as a record, metrics, and exceptions that repeat."""

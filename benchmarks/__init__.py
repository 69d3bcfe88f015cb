"""Benchmarks: each prints JSON, compares by ratio within one run, and keeps its figures in `benchmarks/results`."""

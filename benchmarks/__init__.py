"""Benchmarks: each prints JSON, and compares by ratio within one run."""

"""Spouts and bolts as PySpark Structured Streaming jobs."""

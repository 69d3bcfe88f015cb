"""Chained bolts."""

"""Delivery guarantees: when a bolt's offsets are committed, and the transactions of exactly once."""

"""Delivery guarantees.

- `delivery_guarantees`: when a bolt's offsets are committed.
- `transactional_sink`: the transactions of exactly once.
"""

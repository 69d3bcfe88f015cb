"""Delivery guarantees.

- `delivery_guarantees`: when a bolt's offsets are committed; `exactly_once`: in transactions.
- `transactional_sink`: the transactions of exactly once.
"""

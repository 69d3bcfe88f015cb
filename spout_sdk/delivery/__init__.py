"""Delivery guarantees.

- `delivery_guarantees`: when a bolt's offsets are committed; `exactly_once`: in transactions.
- `spout_transactions`: transactions of a spout with chained bolts.
- `transactional_sink`: the transactions of exactly once.
"""

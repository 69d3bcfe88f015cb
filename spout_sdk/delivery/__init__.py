"""Delivery guarantees.

- `delivery_guarantees`: when the progress of tasks is committed; `exactly_once`: in transactions.
- `transactional_sink`: the transactions of exactly once.
"""

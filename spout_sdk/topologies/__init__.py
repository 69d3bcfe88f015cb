"""Topologies as users build them.

- `builder`: `TopologyBuilder`; `checks`, `async_checks`, `window_checks`: its checks.
"""

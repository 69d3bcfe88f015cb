"""Topologies as users build them.

- `builder`: `TopologyBuilder`; `checks`, `window_checks`: its checks.
"""

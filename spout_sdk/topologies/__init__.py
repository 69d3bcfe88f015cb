"""Topologies as users build them.

- `builder`: `TopologyBuilder`; `checks`, `bolt_options`, `async_checks`, `window_checks`, `state_checks`: its checks.
"""

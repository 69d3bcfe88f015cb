"""Topologies as users build them.

- `builder`: `TopologyBuilder`; `checks`, `window_checks`, `signatures`: its checks; `topology`: what it builds.
"""

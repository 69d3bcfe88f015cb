"""Topologies as users build them.

- `builder`: `TopologyBuilder`; `checks`: its checks; `topology`: what it builds.
"""

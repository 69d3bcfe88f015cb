"""Builds and checks topologies.

- `builder`: `TopologyBuilder`; `bolt_options`: the options of a bolt;
  `subscriptions`: what all bolts receive.
- `component_checks`: checks a component by itself. `unmet_needs`: compares needs with options, guarantee and streams.
- `row_type_checks`: checks that steps take the rows that they receive.
- `chaining`: decides which bolts are chained. `state_manifests`, `window_manifests`: the states of bolts.
- `derived`: times, and the settings by which statistics are judged.
"""

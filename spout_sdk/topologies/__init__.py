"""Builds and checks topologies.

- `builder`: `TopologyBuilder`; `bolt_declarer`: the subscriptions of a bolt.
- `chaining`: decides which bolts are chained. `component_settings`: settings by which statistics are judged.
- `checks`, `bolt_options`, `async_checks`, `window_checks`, `state_checks`, `aggregate_checks`, `answer_checks`,
  `kafka_bolt_checks`: checks by the builder.
"""

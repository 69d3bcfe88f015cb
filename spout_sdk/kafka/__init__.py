"""Producers and consumers.

- `kafka_reader`: a consumer in a component's group; `left_out`: what its commits leave out; `kafka_sink`: two
  producers.
- `kafka_settings`: settings of clients; `kafka_checks`: checks of topics and permissions before a component starts.
"""

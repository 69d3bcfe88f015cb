"""Producers and consumers.

- `kafka_reader`: a consumer in a component's group; `truncated_commits`: done inputs that its commits leave out;
  `kafka_sink`: the producers; `record_producer`: the producer of records that bolts write.
- `kafka_settings`: settings of clients; `kafka_checks`: checks of topics and permissions before a component starts.
"""

"""A spout that reads Kafka topics, after Storm's `storm-kafka-client`.

- `spout`: `KafkaSpout`, and what users declare it with.
- `source_task`: one task at work; `replays`: what failed, and what becomes a dead letter.
- `partitions`: those of a task, and their attempts; `kafka_source`: what reads them and commits.
"""

from spout_sdk.kafka_spout.spout import FirstPoll, KafkaSpout, KafkaTuple, Mode, RetryPolicy, SourceProgress, Translate

__all__ = ["FirstPoll", "KafkaSpout", "KafkaTuple", "Mode", "RetryPolicy", "SourceProgress", "Translate"]

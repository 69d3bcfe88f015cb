"""A spout that reads Kafka topics, after Storm's `storm-kafka-client`.

- `spout`: `KafkaSpout`, what users declare; `settings`: with what; `translation`: messages as values of tuples.
- `source_task`: one task at work; `partitions`: its source partitions, and their attempts; `replays`: what failed, and
  what becomes a dead letter.
- `source`: what it needs of the broker; `kafka_source`: that on Kafka.
"""

from spout_sdk.kafka_spout.settings import FirstPoll, Mode, RetryPolicy, SourceProgress
from spout_sdk.kafka_spout.spout import KafkaSpout
from spout_sdk.kafka_spout.translation import KafkaTuple, Translate

__all__ = ["FirstPoll", "KafkaSpout", "KafkaTuple", "Mode", "RetryPolicy", "SourceProgress", "Translate"]

"""A spout that reads Kafka topics, after Storm's `storm-kafka-client`.

- `spout`: `KafkaSpout`, what users declare; `settings`: with what, messages as values of tuples included.
- `source_task`: one task at work; `replays`: what failed, and what becomes a dead letter.
- `source`: its partitions, their attempts, and what it needs of the broker; `kafka_source`: that on Kafka.
"""

from spout_sdk.kafka_spout.settings import FirstPoll, KafkaTuple, Mode, RetryPolicy, SourceProgress, Translate
from spout_sdk.kafka_spout.spout import KafkaSpout

__all__ = ["FirstPoll", "KafkaSpout", "KafkaTuple", "Mode", "RetryPolicy", "SourceProgress", "Translate"]

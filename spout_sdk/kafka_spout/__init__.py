"""A spout that reads Kafka topics, after Storm's `storm-kafka-client`.

- `spout`: `KafkaSpout`, what users declare; `settings`: with what; `translation`: messages as values of tuples.
- `retry`: when a failed message is delivered again; `first_poll`: where reading begins.
- `source_task`: one task at work; `partitions`: its source partitions, and their attempts; `replays`: what failed;
  `dead_letters`: what becomes a dead letter.
- `source`: what it needs of the broker; `kafka_source`, `position_reader`, `group_offsets`: that on Kafka.
"""

from spout_sdk.kafka_spout.first_poll import FirstPoll
from spout_sdk.kafka_spout.retry import RetryPolicy
from spout_sdk.kafka_spout.settings import Mode, SourceProgress
from spout_sdk.kafka_spout.spout import KafkaSpout
from spout_sdk.kafka_spout.translation import KafkaTuple, Translate

__all__ = ["FirstPoll", "KafkaSpout", "KafkaTuple", "Mode", "RetryPolicy", "SourceProgress", "Translate"]

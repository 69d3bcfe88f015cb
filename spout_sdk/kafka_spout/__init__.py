"""A spout that reads Kafka topics, after Storm's `storm-kafka-client`.

- `spout`: `KafkaSpout`; `translation`, `typed_translation`: messages to tuples.
- `source_task`: the source of a `KafkaSpout`; `read_ahead`: messages that are not emitted yet;
  `message_emitter`: emits messages, and makes dead letters; `outcomes`: ends messages, and writes outcomes.
- `partitions`: which source partitions a task has, and where they begin; `kafka_source`: reads them.
"""

from spout_sdk.api.retry import RetryPolicy
from spout_sdk.kafka_spout.spout import KafkaSpout
from spout_sdk.kafka_spout.translation import FirstPoll, KafkaTuple, Translate

__all__ = [
    "FirstPoll",
    "KafkaSpout",
    "KafkaTuple",
    "RetryPolicy",
    "Translate",
]

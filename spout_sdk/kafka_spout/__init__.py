"""A spout that reads Kafka topics, after Storm's `storm-kafka-client`.

- `spout`: `KafkaSpout`, and its options.
- `source_task`: the adapter of a `KafkaSpout`, registered here; `read_ahead`: messages that are not emitted yet;
  `message_emitter`: emits messages, and makes dead letters; `outcomes`: ends messages, and writes outcomes.
- `partitions`: which source partitions a task has, and where they begin; `kafka_source`: reads them.
"""

import spout_sdk.kafka_spout.source_task  # noqa: F401 - registers itself
from spout_sdk.api.retry import RetryPolicy
from spout_sdk.kafka_spout.spout import FirstPoll, KafkaSpout, KafkaTuple, Translate

__all__ = [
    "FirstPoll",
    "KafkaSpout",
    "KafkaTuple",
    "RetryPolicy",
    "Translate",
]

"""A spout that reads Kafka topics, after Storm's `storm-kafka-client`.

- `spout`: `KafkaSpout`, and its options.
- `source_task`: the adapter of a `KafkaSpout`, registered here; `read_ahead`: messages that are not emitted yet;
  `message_emitter`: emits messages; `replays`: failed messages and dead letters; `outcomes`: writes outcomes.
- `partitions`: the source partitions of a task, and their attempts; `kafka_source`: reads them, and commits;
  `beginning`: where they begin.
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

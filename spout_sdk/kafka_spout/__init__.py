"""A spout that reads Kafka topics, after Storm's `storm-kafka-client`; a message, and a tuple made of it.

    from spout_sdk.kafka_spout import KafkaMessage, Record

- `spout`: `KafkaSpout`; `message`: `KafkaMessage`, a message as a row; `translation`, `typed_translation`: messages to
  tuples.
- `source_task`: the source of a `KafkaSpout`; `read_ahead`: messages that are not emitted yet;
  `message_emitter`: emits messages, and makes dead letters; `outcomes`: ends messages, and writes outcomes.
- `partitions`: which source partitions a task has, and where they begin; `kafka_source`: reads them.
"""

from spout_sdk.kafka_spout.message import KafkaMessage
from spout_sdk.kafka_spout.translation import KafkaTuple
from spout_sdk.records import Record

__all__ = [
    "KafkaMessage",
    "KafkaTuple",
    "Record",
]

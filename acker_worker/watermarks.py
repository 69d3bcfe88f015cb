"""Where a partition begins and ends, asked of its leader."""

import time
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

# While a topic is new, or a broker comes or goes, its partitions have no leader for a moment.
_LEADERLESS: Final = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
)
_PAUSE_S: Final = 0.05


def watermarks(consumer: Consumer, partition: TopicPartition, patience_s: float) -> tuple[int, int]:
    """First offset and high watermark of a partition; waits so long for its leader.

    Raises:
        KafkaException: if there is no answer in time, or another error.
    """
    deadline = time.monotonic() + patience_s
    while True:
        try:
            low, high = consumer.get_watermark_offsets(partition, timeout=patience_s, cached=False)
        except KafkaException as error:
            if error.args[0].code() not in _LEADERLESS or time.monotonic() >= deadline:
                raise
            time.sleep(_PAUSE_S)
        else:
            return low, high

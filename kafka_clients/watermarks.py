"""Where a partition begins and ends, as its leader knows it."""

import time
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

LEADERLESS: Final = frozenset(
    {
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
    }
)
"""Errors that pass: while a topic is new, or a broker comes or goes, its partitions have no leader for a moment."""
_PAUSE_S: Final = 0.05


def watermarks(consumer: Consumer, partition: TopicPartition, patience_s: float) -> tuple[int, int]:
    """First offset and high watermark of a partition; waits for a leader for `patience_s` seconds.

    Raises `KafkaException` if there is no answer in time, and for any other error.
    """
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return consumer.get_watermark_offsets(partition, timeout=patience_s, cached=False)
        except KafkaException as error:
            if error.args[0].code() not in LEADERLESS or time.monotonic() >= deadline:
                raise
            time.sleep(_PAUSE_S)

"""Where a partition begins and ends, asked of its leader.

Only what a consumer of Kafka's answers is known here, no client.
"""

import time
from typing import Any, Final, Protocol, TypeVar

# While a topic is new, or a broker comes or goes, its partitions have no leader for a moment. The numbers are those of
# Kafka's protocol: https://kafka.apache.org/protocol.html#protocol_error_codes
LEADERLESS: Final = frozenset(
    {
        5,  # LEADER_NOT_AVAILABLE
        6,  # NOT_LEADER_OR_FOLLOWER
        74,  # FENCED_LEADER_EPOCH
        75,  # UNKNOWN_LEADER_EPOCH
        78,  # OFFSET_NOT_AVAILABLE
    }
)
"""Codes of errors that pass once a partition's leader is known."""
_PAUSE_S: Final = 0.05

_Place = TypeVar("_Place", contravariant=True)


class HasWatermarks(Protocol[_Place]):
    """What is used of a `confluent_kafka.Consumer`."""

    def get_watermark_offsets(self, partition: _Place, timeout: float = ..., cached: bool = ...) -> tuple[int, int]:
        """First offset and high watermark."""


def watermarks(consumer: HasWatermarks[_Place], partition: _Place, patience_s: float) -> tuple[int, int]:
    """First offset and high watermark of a partition, as its leader says; waits for there to be one.

    Args:
        consumer: a Kafka consumer, of any group.
        partition: a `TopicPartition`.
        patience_s: how long to wait for a leader, and for its answer, in seconds.

    Raises:
        Exception: the client's (`confluent_kafka.KafkaException`), if there is no answer in time, or another error.
    """
    deadline = time.monotonic() + patience_s
    while True:
        try:
            low, high = consumer.get_watermark_offsets(partition, timeout=patience_s, cached=False)
        except Exception as error:
            if _code(error) not in LEADERLESS or time.monotonic() >= deadline:
                raise
            time.sleep(_PAUSE_S)
        else:
            return low, high


def _code(error: Exception) -> int | None:
    """The protocol's number of what a client raised; None if it is something else."""
    refusal: Any = error.args[0] if error.args else None
    return refusal.code() if hasattr(refusal, "code") else None

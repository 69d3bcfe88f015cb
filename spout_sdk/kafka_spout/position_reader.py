"""Reading by position, for what has to be delivered again.

A consumer beside the one that reads ahead, so that replays and new messages never wait for each other. A round reads
one range of each partition, from the first offset that is wanted to the last. What the range jumps over is gone: a
consumer that reads on never returns to it.
"""

import logging
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from spout_sdk.kafka.kafka_settings import KafkaSettings, consumer_settings
from spout_sdk.kafka_spout.source import Fetched, SourcePartition

logger = logging.getLogger("spout_sdk.kafka_spout")

ROUND_SECONDS: Final = 10.0
"""What has not come within this time is asked for again."""

_LARGEST_READ: Final = 500


class PositionReader:
    """Reads wanted offsets, for one thread; commits nothing, and does not join the group whose settings it uses."""

    def __init__(self, kafka: KafkaSettings, group: str) -> None:
        self._consumer = Consumer(
            {
                # A round is short, so little is fetched beyond its end, and no fetch that finds nothing lasts.
                "queued.max.messages.kbytes": 1_024,
                "fetch.wait.max.ms": 20,
                **consumer_settings(kafka, group),
                "enable.partition.eof": True,
            }
        )
        self._wanted: dict[SourcePartition, deque[int]] = {}
        self._until = 0.0

    def begin(self, wanted: Mapping[SourcePartition, Sequence[int]], now: float) -> None:
        """Begins a round: offsets in rising order for each partition."""
        self._wanted = {at: deque(offsets) for at, offsets in wanted.items()}
        self._until = now + ROUND_SECONDS
        self._consumer.assign([TopicPartition(*at, offsets[0]) for at, offsets in self._wanted.items()])

    def poll(self, now: float) -> Fetched | None:
        """What has come since the last call; None once the round is over."""
        if not self._wanted:
            return None
        fetched = Fetched([], [], [])
        for message in self._consumer.consume(_LARGEST_READ, 0):
            self._hear(message, fetched)
        if now >= self._until:
            # The end of the log may lie before what was read there once, while another broker takes a partition over.
            for at, offsets in self._wanted.items():
                fetched.unread.extend((at, offset) for offset in offsets)
            self._wanted.clear()
        if not self._wanted:
            self._consumer.unassign()
        return fetched

    def close(self) -> None:
        self._consumer.close()

    def _hear(self, message: Message, fetched: Fetched) -> None:
        at = SourcePartition(message.topic() or "", message.partition() or 0)
        offsets = self._wanted.get(at)
        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            # The reader ahead says what cannot be cured; here, the round ends without what does not come.
            logger.warning("reading %s by position: %s", at, error.str())
            return
        if offsets is None:
            return
        reached = message.offset() or 0
        while offsets and offsets[0] < reached:
            fetched.gone.append((at, offsets.popleft()))
        if error is None and offsets and offsets[0] == reached:
            offsets.popleft()
            fetched.records.append(message)
        if not offsets:
            del self._wanted[at]

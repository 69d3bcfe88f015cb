"""How far a bolt is, as the offsets of its group, for monitoring; the bolt itself goes by its checkpoint."""

import logging
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from kafka_clients.client_settings import for_consumer

logger = logging.getLogger("spark_jobs.stats")


class InboxOffsets:
    """Commits where micro-batches ended, so that Kafka's tools show the lag of a bolt in Spark as of any other.

    Args:
        kafka: librdkafka properties.
        group: the bolt's; nothing joins it.
    """

    def __init__(self, kafka: Mapping[str, Any], group: str) -> None:
        self._settings = {
            "log_level": 2,
            **for_consumer(kafka),
            "group.id": group,
            "enable.auto.commit": False,
        }
        self._group = group
        self._consumer: Consumer | None = None
        self._ends: Mapping[str, Mapping[str, int]] = {}
        self._committed: Mapping[str, Mapping[str, int]] = {}
        self._failed = False

    def reached(self, ends: Mapping[str, Mapping[str, int]]) -> None:
        """A micro-batch ended here: topic → partition → offset."""
        self._ends = ends

    def commit(self) -> None:
        """Commits what is new; for one thread. The first failure is logged, and of no matter to the query."""
        ends = self._ends
        if ends == self._committed:
            return
        offsets = [
            TopicPartition(topic, int(number), int(offset))
            for topic, partitions in ends.items()
            for number, offset in partitions.items()
        ]
        try:
            self._consumer = self._consumer or Consumer(self._settings)
            for result in self._consumer.commit(offsets=offsets, asynchronous=False) or []:
                if result.error is not None:
                    raise KafkaException(result.error)
        except KafkaException as error:
            if not self._failed:
                logger.warning(
                    "the lag of %s will not be shown, its offsets cannot be committed: %s", self._group, error
                )
            self._failed = True
            return
        self._committed, self._failed = ends, False

    def close(self) -> None:
        """Lets go of the broker."""
        if self._consumer is not None:
            self._consumer.close()

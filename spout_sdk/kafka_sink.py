"""The sink of a process on Kafka: two producers, because a success report for each tuple would cost too much.

One sends tuples and reports failures only; the other sends ack batches and dead letters, reports everything and does
not linger.
"""

import logging
import time
from typing import Any, Final

from confluent_kafka import KafkaException, Producer

from spout_sdk.counters import Counters
from spout_sdk.errors import BrokerError
from spout_sdk.kafka_settings import KafkaSettings, ack_producer_settings, tuple_producer_settings
from spout_sdk.records import Delivered, Headers

logger = logging.getLogger("spout_sdk.kafka")

_ROOM_SECONDS: Final = 0.01


class KafkaSink:
    """Sends through librdkafka; only for the thread that made it, which also hears the delivery reports.

    Args:
        kafka: librdkafka properties.
        counters: counts untracked tuples that were not delivered.
    """

    def __init__(self, kafka: KafkaSettings, counters: Counters) -> None:
        self._counters = counters
        self._warn_at = 0.0
        self.error: str | None = None
        heard = {"error_cb": self._on_error}
        self._tuples = Producer({**tuple_producer_settings(kafka), **heard, "on_delivery": self._untracked_undelivered})
        self._acks = Producer({**ack_producer_settings(kafka), **heard})
        self._produce_tuple = self._tuples.produce

    def send(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes,
        headers: Headers,
        on_undelivered: Delivered | None = None,
    ) -> None:
        """Sends a tuple; waits while librdkafka's queue is full, which is the back-pressure of a slow broker."""
        try:
            self._produce_tuple(topic, value, key, partition, on_undelivered, None, 0, headers)
        except BufferError:
            self._when_room(self._tuples, topic, partition, key, value, headers, on_undelivered)
        except KafkaException as error:
            self._refused(error, on_undelivered or self._untracked_undelivered)

    def send_reported(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        on_delivery: Delivered,
    ) -> None:
        """Sends an ack batch or a dead letter; waits like `send`."""
        self._when_room(self._acks, topic, partition, key, value, headers, on_delivery)

    def poll(self) -> None:
        """Hears the delivery reports that have come.

        Raises:
            BrokerError: if a producer cannot go on.
        """
        self._tuples.poll(0)
        self._acks.poll(0)
        if self.error is not None:
            raise BrokerError(self.error)

    def flush(self, seconds: float) -> int:
        """Waits until everything is delivered or has failed.

        Returns:
            How many records are still on their way when the time is over.
        """
        deadline = time.monotonic() + seconds
        left = self._tuples.flush(seconds)
        return left + self._acks.flush(max(0.0, deadline - time.monotonic()))

    def _when_room(
        self,
        producer: Producer,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        on_delivery: Delivered | None,
    ) -> None:
        while True:
            try:
                producer.produce(topic, value, key, partition, on_delivery, None, 0, headers)
                return
            except BufferError:
                producer.poll(_ROOM_SECONDS)
            except KafkaException as error:
                self._refused(error, on_delivery or self._untracked_undelivered)
                return

    def _refused(self, error: KafkaException, on_delivery: Delivered) -> None:
        """A record that librdkafka does not even take, a too large one for instance: not delivered, like others."""
        reason = error.args[0]
        if reason.fatal():
            raise BrokerError(f"the producer cannot go on: {reason.str()}; restart the process") from error
        on_delivery(reason, None)

    def _untracked_undelivered(self, error: Any, message: Any) -> None:
        if error is None:
            return
        self._counters.undelivered += 1
        now = time.monotonic()
        if now >= self._warn_at:
            self._warn_at = now + 10
            topic = "" if message is None else f" for {message.topic()}[{message.partition()}]"
            logger.warning(
                "an untracked tuple%s was not delivered and is gone: %s (%d tuples so far)",
                topic,
                error,
                self._counters.undelivered,
            )

    def _on_error(self, error: Any) -> None:
        if error.fatal():
            self.error = f"the producer cannot go on: {error.str()}; restart the process"
        else:
            logger.warning("Kafka: %s", error.str())

"""The sink of a process on Kafka: two producers, because a success report for each tuple would cost too much.

One sends tuples and reports failures only; the other sends ack batches and dead letters, reports everything and does
not linger.
"""

import time
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from kafka_clients.client_settings import new_client
from kafka_clients.repeated_lines import get_logger
from spout_sdk.errors import BrokerError
from spout_sdk.kafka.kafka_settings import KafkaSettings, ack_producer_settings, tuple_producer_settings
from spout_sdk.records import Delivered, Sending

logger = get_logger("spout_sdk.kafka")

_ROOM_SECONDS: Final = 0.01


class KafkaSink:
    """Sends through librdkafka; only for the thread that made it, which also serves the delivery reports."""

    def __init__(self, kafka: KafkaSettings, *, never_twice: bool = False) -> None:
        self.error: str | None = None
        callbacks = {"error_cb": self._on_error}
        self._tuples = new_client(Producer, {**tuple_producer_settings(kafka, never_twice=never_twice), **callbacks})
        self._acks = new_client(Producer, {**ack_producer_settings(kafka), **callbacks})
        self._produce_tuple = self._tuples.produce

    def send(self, *record: *Sending) -> None:
        """Sends tuples; waits while librdkafka's queue is full, which is the back-pressure of a slow broker."""
        topic, partition, key, value, headers, on_undelivered = record
        try:
            self._produce_tuple(topic, value, key, partition, on_undelivered, None, 0, headers)
        except BufferError:
            self._when_room(self._tuples, *record)
        except KafkaException as error:
            self._refused(self._tuples, error, on_undelivered)

    def send_reported(self, *record: *Sending) -> None:
        """Sends an ack batch or a dead letter; waits like `send`."""
        self._when_room(self._acks, *record)

    def poll(self, seconds: float = 0.0) -> None:
        """Serves delivery reports; waits `seconds` for one."""
        self._serve(lambda: self._tuples.poll(seconds))
        self._serve(lambda: self._acks.poll(0))
        if self.error is not None:
            raise BrokerError(self.error)

    def in_flight(self) -> int:
        self.poll()
        return len(self._tuples) + len(self._acks)

    def flush(self, seconds: float) -> int:
        """Waits until everything is delivered or has failed; returns how many records are neither in time."""
        deadline = time.monotonic() + seconds
        left = self._serve(lambda: self._tuples.flush(seconds))
        return left + self.flush_acks(max(0.0, deadline - time.monotonic()))

    def flush_acks(self, seconds: float) -> int:
        """As `flush`, but for ack batches and dead letters only: tuples may wait for a partition that has no leader."""
        return self._serve(lambda: self._acks.flush(seconds))

    def _serve(self, call: Callable[[], int]) -> int:
        count, reason = served(call)
        if reason is not None:
            raise self._ended(reason)
        return count

    def _ended(self, reason: KafkaError) -> BrokerError:
        # Kept for `poll`: raised in a bolt's execute, it counts as the bolt's own failure.
        self.error = self.error or f"the producer cannot continue: {reason.str()}; restart the process"
        return BrokerError(self.error)

    def _when_room(self, producer: Producer, *record: *Sending) -> None:
        topic, partition, key, value, headers, on_delivery = record
        while True:
            try:
                producer.produce(topic, value, key, partition, on_delivery, None, 0, headers)
                return
            except BufferError:
                self._serve(lambda: producer.poll(_ROOM_SECONDS))
            except KafkaException as error:
                self._refused(producer, error, on_delivery)
                return

    def _refused(self, producer: Producer, error: KafkaException, on_delivery: Delivered) -> None:
        """A record that librdkafka does not even take, a too large one for instance: not delivered, like others."""
        if (cause := ended_by(producer.poll, error.args[0])) is not None:
            raise self._ended(cause) from error
        on_delivery(error.args[0], None)

    def _on_error(self, error: Any) -> None:
        # A fatal one does not come here: the client raises it while it is polled.
        logger.warning("Kafka: %s", error.str())


def served(call: Callable[[], int]) -> tuple[int, KafkaError | None]:
    """Calls a producer's `poll` or `flush`, which returns how many reports there were, or are left.

    Returns that, 0 if the producer cannot continue, and why. 1 and None after an error without a cause: nothing
    may count as delivered, and the next call raises the cause.
    """
    try:
        return call(), None
    except KafkaException as error:
        return 0, error.args[0]
    except SystemError as error:
        # The client has set the exception and called for one more report; Python names it as the cause.
        if isinstance(error.__cause__, KafkaException):
            return 0, error.__cause__.args[0]
        # It has set the exception, and lost it to a line of librdkafka's log.
        if "without setting an exception" in str(error):
            return 1, None
        raise


def ended_by(poll: Callable[[float], int], reason: KafkaError) -> KafkaError | None:
    """The fatal error of a producer whose `produce` raised `reason`; None if it can continue."""
    # After a fatal error `produce` has a code of its own, with neither the mark nor the cause: the next poll has that.
    if reason.code() == KafkaError._FATAL:
        return served(lambda: poll(0))[1] or reason
    return reason if reason.fatal() else None

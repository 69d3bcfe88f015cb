"""The sink of a process on Kafka: its producers differ in delivery reports and linger.

One sends tuples and reports failures only, because a success report for each tuple would cost too much. Another sends
ack batches and dead letters, reports everything and does not linger. A third, if it is used, sends the records that
bolts write, which linger because each has one tuple only.
"""

import time
from typing import Any, Final

from confluent_kafka import KafkaError

from kafka_clients.producer import ServedProducer
from kafka_clients.repeated_lines import get_logger
from spout_sdk.errors import BrokerError
from spout_sdk.kafka.kafka_settings import (
    KafkaSettings,
    ack_producer_settings,
    record_producer_settings,
    tuple_producer_settings,
)
from spout_sdk.kafka.record_producer import RecordProducer
from spout_sdk.records import Sending

logger = get_logger("spout_sdk.kafka")

_HURRY_SECONDS: Final = 0.001
_HURRY_EVERY_SECONDS: Final = 0.002
_MOST_IN_FLIGHT: Final = 4
"""The largest number of records of a producer in flight with which a task flushes, adding one for each partition.

An idempotent producer has five requests in flight for a partition. While more records wait, its thread polls without a
pause, and takes CPU time from brokers and bolts.
"""


class KafkaSink:
    """Sends through librdkafka; only for the thread that made it, which also serves the delivery reports."""

    def __init__(self, kafka: KafkaSettings, *, never_twice: bool = False) -> None:
        self.error: str | None = None
        self._callbacks = callbacks = {"error_cb": self._on_error}
        self._kafka, self._never_twice = kafka, never_twice
        self._records: RecordProducer | None = None
        self._hurry_at = 0.0
        tuples = {**tuple_producer_settings(kafka, never_twice=never_twice), **callbacks}
        self._tuples = ServedProducer(tuples, self._end)
        self._acks = ServedProducer({**ack_producer_settings(kafka), **callbacks}, self._end)

    def send(self, *record: *Sending) -> None:
        self._tuples.produce(*record)

    def send_reported(self, *record: *Sending) -> None:
        self._acks.produce(*record)

    def send_record(self, *record: *Sending) -> None:
        self._record_producer().produce(*record)

    def send_records(self, *records: Any) -> None:
        self._record_producer().produce_all(*records)

    def _record_producer(self) -> RecordProducer:
        if self._records is None:
            settings = record_producer_settings(self._kafka, never_twice=self._never_twice)
            self._records = RecordProducer({**settings, **self._callbacks}, self._end)
        return self._records

    def poll(self, seconds: float = 0.0) -> None:
        """Serves delivery reports; waits `seconds` for one."""
        self._tuples.poll(seconds)
        self._acks.poll()
        if self._records is not None:
            self._records.poll()
        if self.error is not None:
            raise BrokerError(self.error)

    def wait_reports(self, seconds: float) -> bool:
        """Waits for delivery reports without a linger, at most `seconds`; returns whether the sink can wait."""
        if self._records is not None and len(self._records):
            self._records.flush(seconds)
        else:  # a flush of nothing returns at once
            self._acks.poll(seconds)
        self.poll()
        return True

    def send_lingering(self) -> None:
        """Sends lingering records, because the input is idle; waits at most a millisecond, every two milliseconds."""
        if self._records is None or not len(self._records):
            return
        # If processes wait for cores, the input is idle after each turn of this process.
        if (now := time.monotonic()) >= self._hurry_at:
            self._hurry_at = now + _HURRY_EVERY_SECONDS
            self._records.flush(_HURRY_SECONDS)

    def in_flight(self) -> int:
        self.poll()
        return len(self._tuples) + len(self._acks) + (0 if self._records is None else len(self._records))

    def is_congested(self) -> bool:
        """Whether tuples or ack batches are in flight that brokers have not taken; records of bolts linger."""
        return len(self._tuples) > _MOST_IN_FLIGHT or len(self._acks) > _MOST_IN_FLIGHT

    def flush(self, seconds: float) -> int:
        """Waits until everything is delivered or has failed; returns how many records are neither in time."""
        deadline = time.monotonic() + seconds
        left = 0 if self._records is None else self._records.flush(seconds)
        left += self._tuples.flush(max(0.0, deadline - time.monotonic()))
        return left + self.flush_acks(max(0.0, deadline - time.monotonic()))

    def flush_acks(self, seconds: float) -> int:
        """Like `flush`, but for ack batches and dead letters only: tuples may wait for a partition without a leader."""
        return self._acks.flush(seconds)

    def _end(self, reason: KafkaError) -> None:
        # Kept for `poll`: raised in a bolt's execute, it counts as the bolt's own failure.
        self.error = self.error or f"the producer cannot continue: {reason.str()}; restart the process"
        raise BrokerError(self.error)

    def _on_error(self, error: Any) -> None:
        # Fatal errors are not passed to this callback: the client raises them in `poll`.
        logger.warning("Kafka: %s", error.str())

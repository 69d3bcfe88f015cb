"""The producer of records that bolts write; a record whose batch the broker refuses is sent again, alone."""

from collections.abc import Sequence
from functools import partial
from types import MethodType
from typing import Any, Final

from confluent_kafka import KafkaError

from kafka_clients.producer import DeliveredAt, OnFatal, ServedProducer
from spout_sdk.kafka.kafka_settings import KafkaSettings
from spout_sdk.records import Delivered, Headers, Sending

_BATCH_REFUSED: Final = frozenset(
    {
        *(KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE),
        *(KafkaError.INVALID_RECORD, KafkaError._INVALID_DIFFERENT_RECORD),
    }
)
_ALONE: Final = {"batch.num.messages": 1, "linger.ms": 0}


class RecordProducer:
    """A producer whose records are refused alone.

    A broker writes no record of a batch if one is invalid, or if the batch is larger than `max.message.bytes` of the
    topic, and all are reported. Each is then sent once more, in a batch of its own by a second producer, and that has
    the report.
    """

    def __init__(self, settings: KafkaSettings, on_fatal: OnFatal) -> None:
        self._settings, self._on_fatal = settings, on_fatal
        self._batches = ServedProducer(settings, on_fatal)
        self._alone: ServedProducer | None = None  # once a batch was refused

    def __len__(self) -> int:
        """Records that are sent and not yet delivered, and reports that are not served."""
        return len(self._batches) + (0 if self._alone is None else len(self._alone))

    def produce(self, *record: *Sending) -> None:
        """Sends a record, as `ServedProducer.produce` does."""
        topic, partition, key, value, headers, on_delivery = record
        self._batches.produce(topic, partition, key, value, headers, partial(self._report, headers, on_delivery))

    def produce_all(
        self,
        topic: str,
        keys: Sequence[bytes | None] | None,
        values: Sequence[bytes | None],
        headers: Sequence[Headers] | None,
        on_delivery: DeliveredAt,
    ) -> None:
        """Sends records, as `ServedProducer.produce_all` does."""

        def report(at: int, error: Any, message: Any) -> None:
            if error is None:
                on_delivery(at, None, message)
            else:
                self._report([] if headers is None else headers[at], MethodType(on_delivery, at), error, message)

        self._batches.produce_all(topic, keys, values, headers, report)

    def poll(self) -> None:
        """Serves delivery reports."""
        self._batches.poll()
        if self._alone is not None:
            self._alone.poll()

    def flush(self, seconds: float) -> int:
        """Waits until everything is delivered or has failed; returns how many records are neither in time."""
        left = self._batches.flush(seconds)
        return left if self._alone is None else left + self._alone.flush(seconds)

    def _report(self, headers: Headers, on_delivery: Delivered, error: Any, message: Any) -> None:
        # Without a message, the client has refused the record alone.
        if error is None or message is None or error.code() not in _BATCH_REFUSED:
            on_delivery(error, message)
            return
        if self._alone is None:
            self._alone = ServedProducer({**self._settings, **_ALONE}, self._on_fatal)
        # Delivery reports carry no headers.
        self._alone.produce(message.topic(), message.partition(), message.key(), message.value(), headers, on_delivery)

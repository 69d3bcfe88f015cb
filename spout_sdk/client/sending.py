"""The producer of a client; a thread serves its delivery reports."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaError

from kafka_clients.producer import ServedProducer
from spout_sdk.errors import BrokerError
from spout_sdk.kafka.kafka_settings import ack_producer_settings

_POLL_SECONDS: Final = 0.1
_FLUSH_SECONDS: Final = 5.0
_ANY_PARTITION: Final = -1
_SETTINGS: Final[dict[str, Any]] = {
    # Without it, each of many calls would send a request.
    "linger.ms": 1,
    # A message that is not delivered holds a slot of the client: by default for five minutes.
    "message.timeout.ms": 30_000,
}

Reported = Callable[[KafkaError | None, Any], None]


class Sending:
    """Sends from one thread, and serves delivery reports in another, from `start` to `close`.

    Args:
        failed: called in the other thread with the error after which nothing can be sent.
    """

    def __init__(self, kafka: Mapping[str, Any], failed: Callable[[Exception], None]) -> None:
        self._failed = failed
        self._producer = ServedProducer(ack_producer_settings({**_SETTINGS, **kafka}), self._end)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="client deliveries", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: Sequence[tuple[str, str | bytes | None]],
        reported: Reported,
    ) -> None:
        """Sends a record; `reported` is called in the other thread.

        Raises:
            BufferError: if the queue is full.
            KafkaException: if the record is refused, because it is too large for instance.
        """
        self._producer.client.produce(
            topic, value, key, _ANY_PARTITION, on_delivery=reported, headers=list(headers) or None
        )

    def close(self) -> None:
        """Waits for the delivery of sent records, 5 seconds at most, and ends the thread."""
        self._stopping.set()
        self._thread.join()
        self._producer.flush(_FLUSH_SECONDS)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._producer.poll(_POLL_SECONDS)

    def _end(self, reason: KafkaError) -> None:
        self._stopping.set()
        self._failed(BrokerError(f"the producer cannot continue: {reason.str()}; open another client"))

"""The sink of a simulated task: appends to the broker in memory."""

from collections import deque
from typing import Any

from spout_sdk.records import Delivered, Headers
from spout_sdk.testing.broker import MemoryBroker, MemoryRecord


class MemorySink:
    """Sends at once. As with librdkafka, delivery reports are only heard in `poll`, never while something is sent."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker
        self._reports: deque[tuple[Delivered, Any, MemoryRecord]] = deque()

    def send(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        on_undelivered: Delivered,
    ) -> None:
        """Sends a record with tuples; only a failure is reported."""
        record, error = self._broker.append(topic, partition, key, value, headers)
        if error is not None:
            self._reports.append((on_undelivered, error, record))

    def send_reported(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        on_delivery: Delivered,
    ) -> None:
        """Sends an ack batch or a dead letter; success and failure are reported."""
        record, error = self._broker.append(topic, partition, key, value, headers)
        self._reports.append((on_delivery, error, record))

    def flush_acks(self, _seconds: float) -> int:
        self.poll()
        return 0

    def poll(self) -> None:
        """Hears the delivery reports, and those of what is sent because of them."""
        while self._reports:
            on_delivery, error, record = self._reports.popleft()
            on_delivery(error, record)

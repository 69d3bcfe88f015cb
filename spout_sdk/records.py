"""The I/O of tasks, which they are given: records in, a sink out, a clock and randomness.

Kafka's loops, the tests and the simulated cluster each have their own.
"""

from collections.abc import Callable
from typing import Any, Protocol

Headers = list[tuple[str, str | bytes | None]]
"""As confluent-kafka takes them; what is sent here is bytes."""

Delivered = Callable[[Any, Any], None]
"""Called with an error and the message, as confluent-kafka does; the error is None where it was delivered."""

Sending = tuple[str, int, bytes | None, bytes | None, Headers, Delivered]
"""A record to send: topic, partition, key, value, headers, and what is called with its delivery report."""

Clock = Callable[[], float]
"""Monotonic seconds."""

Entropy = Callable[[int], bytes]
"""That many random bytes."""


class Record(Protocol):
    """A record as read; `confluent_kafka.Message` is one, so nothing is copied on the way in."""

    def topic(self) -> str | None:
        """Its topic."""

    def partition(self) -> int | None:
        """Its partition."""

    def offset(self) -> int | None:
        """Its offset in the partition."""

    def key(self) -> bytes | None:
        """Its key."""

    def value(self) -> bytes | None:
        """Its value."""

    def headers(self) -> Any:
        """Its headers: a list of name and value pairs, or None."""

    def timestamp(self) -> tuple[int, int]:
        """Type and milliseconds since the epoch."""


class NoRecord:
    """Stands for a record that does not exist, or not any more: at most its topic, partition and offset are known."""

    __slots__ = ("_at",)

    def __init__(self, topic: str | None = None, partition: int | None = None, offset: int | None = None) -> None:
        self._at = (topic, partition, offset)

    def topic(self) -> str | None:
        return self._at[0]

    def partition(self) -> int | None:
        return self._at[1]

    def offset(self) -> int | None:
        return self._at[2]

    def key(self) -> bytes | None:
        return None

    def value(self) -> bytes | None:
        return None

    def headers(self) -> Any:
        return None

    def timestamp(self) -> tuple[int, int]:
        return (0, -1)  # not available, as in Kafka's client


class Sink(Protocol):
    """Where tasks send records. Sending never blocks for the network, and keeps the order within a partition."""

    def send(self, *record: *Sending) -> None:
        """Sends a record with tuples. Only a failure is reported."""

    def send_reported(self, *record: *Sending) -> None:
        """Sends an ack batch or a dead letter; success and failure are reported."""

    def flush_acks(self, seconds: float) -> int:
        """Waits until what `send_reported` took is delivered or has failed; returns how many records are neither."""

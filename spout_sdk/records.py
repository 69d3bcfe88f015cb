"""Interfaces of a task's I/O: records that it reads, a sink that it sends to, a clock and randomness.

Kafka's loops, the tests and the simulated cluster each implement them.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from kafka_clients.producer import DeliveredAt
from spout_sdk.statistics.stats import Counters

Headers = list[tuple[str, str | bytes | None]]
"""Headers as confluent-kafka takes them; the SDK sends bytes."""

Delivered = Callable[[Any, Any], None]
"""Called with an error and the message, as in confluent-kafka; the error is None if the record was delivered."""

Sending = tuple[str, int, bytes | None, bytes | None, Headers, Delivered]
"""A record to send: topic, partition, key, value, headers, and the callback for its delivery report."""

Clock = Callable[[], float]
"""Monotonic seconds."""

Entropy = Callable[[int], bytes]
"""Returns the given number of random bytes."""


class Record(Protocol):
    """A record that was read; a `confluent_kafka.Message` is one, so nothing is copied."""

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


@dataclass(frozen=True, slots=True)
class MadeRecord(Record):
    """A record that was not read from Kafka; without values it stands for a record that does not exist."""

    topic_: Any = None
    partition_: Any = None
    offset_: Any = None
    value_: bytes | None = None
    headers_: Headers | None = None
    key_: bytes | None = None
    timestamp_: tuple[int, int] = (0, -1)  # not available, as in Kafka's client

    def topic(self) -> Any:
        return self.topic_

    def partition(self) -> Any:
        return self.partition_

    def offset(self) -> Any:
        return self.offset_

    def key(self) -> bytes | None:
        return self.key_

    def value(self) -> bytes | None:
        return self.value_

    def headers(self) -> Headers | None:
        return self.headers_

    def timestamp(self) -> tuple[int, int]:
        return self.timestamp_


class ChainedRecord(MadeRecord):
    """The record of tuples that a chained bolt has received without Kafka; it was never in a topic."""

    __slots__ = ()


class Sink(Protocol):
    """Where tasks send records. Sending never blocks for the network, and keeps the order within a partition."""

    def send(self, *record: *Sending) -> None:
        """Sends a record with tuples. Only a failure is reported."""

    def send_reported(self, *record: *Sending) -> None:
        """Sends an ack batch or a dead letter; success and failure are reported."""

    def send_record(self, *record: *Sending) -> None:
        """Sends a record that a bolt writes; reports as `send_reported` if trees are tracked, otherwise as `send`."""

    def send_records(
        self,
        topic: str,
        keys: Sequence[bytes | None] | None,
        values: Sequence[bytes | None],
        headers: Sequence[Headers] | None,
        reported: DeliveredAt,
    ) -> None:
        """Sends each record as `send_record` does: to the partition of its key, or to any partition without a key.

        `reported` is called with the place of each record in `values`, and its delivery report.
        """

    def in_flight(self) -> int:
        """How many records are not delivered, after delivery reports were served."""

    def is_congested(self) -> bool:
        """Whether more records are in flight than brokers take at once, so that a task should send fewer and larger."""

    def flush_acks(self, seconds: float) -> int:
        """Waits until the records of `send_reported` are delivered or have failed; returns how many are neither."""


def wall_ms() -> int:
    """Milliseconds since the epoch, by the clock of the machine."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class TaskEnvironment:
    """The environment of a task, given by its process; all tasks of the process share `counters`.

    Attributes:
        chained: bolt that is chained to the component → its counters.
        is_transactional: whether the process works in transactions.
        published: for a bolt, the published manifest of the topology; None if there is none.
    """

    sink: Sink
    counters: Counters
    clock: Clock
    entropy: Entropy
    open_source: Callable[[], Any] | None = None  # for spouts that read Kafka topics
    kafka: Mapping[str, Any] = field(default_factory=dict)  # librdkafka properties; empty without Kafka
    wall_ms: Callable[[], int] = wall_ms
    chained: Mapping[str, Counters] = field(default_factory=dict)
    is_transactional: bool = False
    published: Any = None

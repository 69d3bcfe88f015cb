"""Which librdkafka properties are for whom, so that one mapping of a user's can serve every client.

librdkafka warns of properties that are the other side's. Only names are known here, no client.
"""

from collections.abc import Mapping
from typing import Any, Final

_CONSUMER_ONLY: Final = (
    "auto.commit.",
    "auto.offset.reset",
    "check.crcs",
    "enable.auto.",
    "enable.partition.eof",
    "fetch.",
    "group.",
    "heartbeat.",
    "isolation.level",
    "max.partition.fetch.bytes",
    "max.poll.interval.ms",
    "partition.assignment.strategy",
    "queued.",
    "session.timeout.ms",
)
_PRODUCER_ONLY: Final = (
    "acks",
    "batch.",
    "compression.",
    "delivery.",
    "enable.gapless.guarantee",
    "enable.idempotence",
    "linger.ms",
    "message.send.max.retries",
    "message.timeout.ms",
    "partitioner",
    "queue.buffering.",
    "request.required.acks",
    "request.timeout.ms",
    "retries",
    "sticky.partitioning.",
    "transaction",
)


def for_consumer(kafka: Mapping[str, Any]) -> dict[str, Any]:
    """The properties without those that only producers have."""
    return _without(kafka, _PRODUCER_ONLY)


def for_producer(kafka: Mapping[str, Any]) -> dict[str, Any]:
    """The properties without those that only consumers have."""
    return _without(kafka, _CONSUMER_ONLY)


def for_admin(kafka: Mapping[str, Any]) -> dict[str, Any]:
    """The properties that every client has."""
    return _without(kafka, _CONSUMER_ONLY + _PRODUCER_ONLY)


def _without(kafka: Mapping[str, Any], prefixes: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in kafka.items() if not name.startswith(prefixes)}

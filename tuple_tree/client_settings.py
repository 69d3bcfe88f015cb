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

# A request to a broker that is away looks for it again at each change of a connection, and asks for one while it looks:
# that is a new connection as soon as one is refused, thousands a second from each process, until the broker is back.
# A client that keeps connections to all brokers need not ask for them, and comes back by the backoff, a second at most
# lest a broker that is back waits for us.
_ADMIN: Final[dict[str, Any]] = {"enable.sparse.connections": False, "reconnect.backoff.max.ms": 1_000}


def for_consumer(kafka: Mapping[str, Any]) -> dict[str, Any]:
    """The properties without those that only producers have."""
    return _without(kafka, _PRODUCER_ONLY)


def for_producer(kafka: Mapping[str, Any]) -> dict[str, Any]:
    """The properties without those that only consumers have."""
    return _without(kafka, _CONSUMER_ONLY)


def for_any(kafka: Mapping[str, Any]) -> dict[str, Any]:
    """The properties that every client has."""
    return _without(kafka, _CONSUMER_ONLY + _PRODUCER_ONLY)


def for_admin(kafka: Mapping[str, Any]) -> dict[str, Any]:
    """The properties that every client has, and how a client that only asks stays in touch with the brokers."""
    return {**_ADMIN, **for_any(kafka)}


def _without(kafka: Mapping[str, Any], prefixes: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in kafka.items() if not name.startswith(prefixes)}

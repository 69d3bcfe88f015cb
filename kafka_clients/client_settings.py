"""The librdkafka properties of each kind of client, out of one mapping of a user's.

librdkafka warns of a producer's properties in a consumer, and the other way round.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

T = TypeVar("T")

CLIENT_CLASSES: Final = "client.classes"
"""A property of ours: by class of confluent-kafka, what is called in its place, for a Kafka in memory."""

# How the names of properties begin.
_CONSUMER_ONLY: Final = (
    *("auto.commit.", "auto.offset.reset", "check.crcs", "enable.auto.", "enable.partition.eof", "fetch.", "group."),
    *("heartbeat.", "isolation.level", "max.partition.fetch.bytes", "max.poll.interval.ms"),
    *("partition.assignment.strategy", "queued.", "session.timeout.ms"),
)
_PRODUCER_ONLY: Final = (
    *("acks", "batch.", "compression.", "delivery.", "enable.gapless.guarantee", "enable.idempotence", "linger.ms"),
    *("message.send.max.retries", "message.timeout.ms", "partitioner", "queue.buffering.", "request.required.acks"),
    *("request.timeout.ms", "retries", "sticky.partitioning.", "transaction"),
)
_SOCKET: Final = "socket.timeout.ms"
INSTANCE: Final = "group.instance.id"
_EVERY: Final[dict[str, Any]] = {
    # A client may find a broker that was restarted, or a partition's new leader, only when it refreshes its metadata,
    # by default every 300 s.
    "topic.metadata.refresh.interval.ms": 10_000,
    # By default a broker that is back may wait for 10 s until it is tried again.
    "reconnect.backoff.max.ms": 1_000,
    # A broker that hangs, or a machine that is gone, answers nothing: by default a request waits for 60 s.
    _SOCKET: 10_000,
    # Topics are there before clients use them, so one that a broker does not know does not exist: by default a record
    # for it waits for 30 s, as long as a message timeout, and longer than a transaction may be open.
    "topic.metadata.propagation.max.ms": 5_000,
    "socket.connection.setup.timeout.ms": 10_000,
}
SESSION_MS: Final = 10_000
"""The default of `session.timeout.ms`, after which a process without heartbeats has left its group, in milliseconds."""

_GROUP: Final[dict[str, Any]] = {
    "session.timeout.ms": SESSION_MS,
    "heartbeat.interval.ms": 500,
    # The default of a second makes a consumer with a full queue pause: 130 k instead of 600 k messages/s.
    "fetch.queue.backoff.ms": 50,
}
# What the guarantees rest on, so no setting of a user changes it.
_FIXED_GROUP: Final[dict[str, Any]] = {
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "isolation.level": "read_committed",
    "partition.assignment.strategy": "cooperative-sticky",
}
_REPORTED: Final[dict[str, Any]] = {
    # They are packed already: waiting for others would only add latency.
    "linger.ms": 0,
    "compression.type": "lz4",
    # A dead letter may be as large as the largest record of a topic; the broker rejects what is too large.
    "message.max.bytes": 100_000_000,
}
# Commits depend on these.
_FIXED_REPORTED: Final = {"enable.idempotence": True, "acks": "all", "delivery.report.only.error": False}
# A request to a broker that is away asks for a connection whenever a connection changes: for a new one as soon as one
# is refused, thousands a second from each process, until the broker is back. A client that keeps connections to all
# brokers need not ask for them, and comes back by the backoff.
_ADMIN: Final[dict[str, Any]] = {"enable.sparse.connections": False}


def new_client(kind: type[T], settings: Mapping[str, Any]) -> T:
    """A client of a class of confluent-kafka, or of the one that `CLIENT_CLASSES` has in its place."""
    client: T = settings.get(CLIENT_CLASSES, {}).get(kind, kind)(settings)
    return client


def for_consumer(kafka: Mapping[str, Any]) -> dict[str, Any]:
    return {**_EVERY, **consumers(kafka)}


def for_group(kafka: Mapping[str, Any], group: str, instance: str | None = None) -> dict[str, Any]:
    """The properties of a member of a consumer group; what the guarantees rest on is ours.

    With an `instance` it is a static member, unless the user has set another.
    """
    static = {} if instance is None else {INSTANCE: instance}
    return {**_GROUP, **static, **for_consumer(kafka), **_FIXED_GROUP, "group.id": group}


def for_producer(kafka: Mapping[str, Any]) -> dict[str, Any]:
    return {**_EVERY, **_without(kafka, _CONSUMER_ONLY)}


def for_reported(kafka: Mapping[str, Any]) -> dict[str, Any]:
    """The properties of a producer of ack batches, notices and dead letters, which reports every delivery."""
    return {**_REPORTED, **for_producer(kafka), **_FIXED_REPORTED}


def for_transactions(kafka: Mapping[str, Any]) -> dict[str, Any]:
    """The properties of a producer with transactions: librdkafka's socket timeout is that of a transaction."""
    return {name: value for name, value in for_producer(kafka).items() if name != _SOCKET or name in kafka}


def consumers(kafka: Mapping[str, Any]) -> dict[str, Any]:
    """The consumer properties that the user has set, for a client other than librdkafka."""
    return _without(kafka, _PRODUCER_ONLY)


def for_any(kafka: Mapping[str, Any]) -> dict[str, Any]:
    """The properties that every client has."""
    return {**_EVERY, **_without(kafka, _CONSUMER_ONLY + _PRODUCER_ONLY)}


def for_admin(kafka: Mapping[str, Any]) -> dict[str, Any]:
    """The properties that every client has, and how a client that only asks stays in touch with the brokers."""
    return {**_ADMIN, **for_any(kafka)}


def _without(kafka: Mapping[str, Any], prefixes: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in kafka.items() if not name.startswith(prefixes)}

"""librdkafka settings: what the SDK needs, under what the user says."""

import logging
from collections.abc import Mapping
from typing import Any, Final

from spout_sdk.errors import SpoutSdkError

logger = logging.getLogger("spout_sdk.kafka")

KafkaSettings = Mapping[str, Any]
"""librdkafka properties; at least `bootstrap.servers`."""

_CONSUMER: Final[dict[str, Any]] = {
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "partition.assignment.strategy": "cooperative-sticky",
    "session.timeout.ms": 10_000,
    "heartbeat.interval.ms": 2_000,
    # Bounds a commit on revoke, which waits for the group's coordinator.
    "socket.timeout.ms": 10_000,
    # The default of a second makes a consumer with a full queue pause: 130 k instead of 600 k messages/s.
    "fetch.queue.backoff.ms": 50,
}
_PRODUCER: Final[dict[str, Any]] = {
    "enable.idempotence": True,
    "acks": "all",
    "compression.type": "lz4",
}
_TUPLES: Final[dict[str, Any]] = {
    "linger.ms": 2,
    # A call of Python for each delivered tuple would cost more than sending it.
    "delivery.report.only.error": True,
}
# Ack batches are packed already: waiting for company would only add latency.
_ACKS: Final[dict[str, Any]] = {"linger.ms": 0}

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


def consumer_settings(kafka: KafkaSettings, group: str) -> dict[str, Any]:
    """The settings of a component's consumer; the group is ours, everything else may be overridden."""
    return {**_CONSUMER, **_without(kafka, _PRODUCER_ONLY), "group.id": group, "logger": logger}


def tuple_producer_settings(kafka: KafkaSettings) -> dict[str, Any]:
    """The settings of the producer of tuples, which reports failures only."""
    return {**_PRODUCER, **_TUPLES, **_without(kafka, _CONSUMER_ONLY), "logger": logger}


def ack_producer_settings(kafka: KafkaSettings) -> dict[str, Any]:
    """The settings of the producer of ack batches and dead letters, which reports everything."""
    return {**_PRODUCER, **_ACKS, **_without(kafka, _CONSUMER_ONLY), "logger": logger}


def checked(kafka: KafkaSettings) -> KafkaSettings:
    """Returns the settings if they say where Kafka is.

    Raises:
        SpoutSdkError: if they do not.
    """
    if not kafka.get("bootstrap.servers"):
        raise SpoutSdkError(
            "the Kafka settings have no bootstrap.servers: pass it, or set ACKER_KAFKA__BOOTSTRAP_SERVERS"
        )
    return kafka


def _without(kafka: KafkaSettings, prefixes: tuple[str, ...]) -> dict[str, Any]:
    # librdkafka warns of settings that are the other side's; one mapping serves both here.
    return {name: value for name, value in kafka.items() if not name.startswith(prefixes)}

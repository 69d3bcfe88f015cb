"""librdkafka settings: the defaults of the SDK, the settings of the user, and fixed ones."""

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka.admin import AdminClient

from kafka_clients.client_settings import (
    for_admin,
    for_group,
    for_producer,
    for_reported,
    for_transactions,
    new_client,
)
from kafka_clients.librdkafka_bugs import forgettable
from kafka_clients.repeated_lines import client_logger
from spout_sdk.errors import SpoutSdkError

_LOGGER: Final = client_logger("spout_sdk")

TRANSACTION_MS: Final = 8_000
"""How long a transaction may be open, in milliseconds, unless `transaction.timeout.ms` is set.

The open transaction of a process that stops running blocks the ackers for that time, and until a broker checks for such
transactions. If it checks every second, as our brokers do, that is less than 10 seconds.
"""

KafkaSettings = Mapping[str, Any]
"""librdkafka properties; at least `bootstrap.servers`."""

# Records with a key that leave a topology go to the partitions that Kafka's own clients choose.
_PARTITIONER: Final[dict[str, Any]] = {"partitioner": "murmur2_random"}
# Tuples are packed already: a linger would only add latency.
_TUPLES: Final[dict[str, Any]] = {**_PARTITIONER, "compression.type": "lz4", "linger.ms": 0}
# The guarantees depend on these, so no setting of a user changes them. A call of Python for each delivered tuple would
# cost more than sending it.
_TRANSACTION_LINGER_MS: Final = 20
_RECORD_LINGER_MS: Final = 20  # under load; when the input is idle, the sink sends lingering records at once
_FIXED_TUPLES: Final[dict[str, Any]] = {"enable.idempotence": True, "acks": "all", "delivery.report.only.error": True}
# librdkafka begins a new epoch when it gives up a record that may have arrived, or detects a gap between requests that
# were in flight together, and records that it then sends again may be there twice (confluentinc/librdkafka#4953).
_NEVER_TWICE: Final[dict[str, Any]] = {"message.timeout.ms": 0, "max.in.flight.requests.per.connection": 1}


def consumer_settings(kafka: KafkaSettings, group: str, instance: str | None = None) -> dict[str, Any]:
    return {**for_group(kafka, group, instance), "logger": _LOGGER}


def tuple_producer_settings(kafka: KafkaSettings, *, never_twice: bool = False) -> dict[str, Any]:
    """The settings of the producer of tuples, which reports failures only."""
    once = _NEVER_TWICE if never_twice else {}
    return {**_TUPLES, **for_producer(kafka), **_FIXED_TUPLES, **once, "logger": _LOGGER}


def ack_producer_settings(kafka: KafkaSettings) -> dict[str, Any]:
    """The settings of the producer of ack batches and dead letters, which reports everything."""
    return {**_PARTITIONER, **for_reported(kafka), "logger": _LOGGER}


def record_producer_settings(kafka: KafkaSettings, *, never_twice: bool = False) -> dict[str, Any]:
    """The settings of the producer of records that bolts write; with `never_twice` it reports failures only."""
    lingering = {"compression.type": "lz4", "linger.ms": _RECORD_LINGER_MS, **kafka}
    if never_twice:
        return tuple_producer_settings(lingering, never_twice=True)
    return {**_PARTITIONER, **for_reported(lingering), "logger": _LOGGER}


def transactional_settings(kafka: KafkaSettings, transactional_id: str) -> dict[str, Any]:
    """The settings of the one producer of a bolt's process that works in transactions; it reports failures only."""
    return {
        **_TUPLES,
        # No reader sees a record before the commit, which sends lingering records at once: so batches may become large.
        "linger.ms": _TRANSACTION_LINGER_MS,
        # An open transaction blocks its readers, including the ackers, for that time at most.
        "transaction.timeout.ms": TRANSACTION_MS,
        **for_transactions(kafka),
        **_FIXED_TUPLES,
        "transactional.id": transactional_id,
        "logger": _LOGGER,
    }


def admin_settings(kafka: KafkaSettings) -> dict[str, Any]:
    """The settings of the client that checks topics before a component starts."""
    return {**for_admin(kafka), "logger": _LOGGER}


def watching_client(kafka: KafkaSettings) -> AdminClient:
    """A client for requests that are sent while a component runs."""
    return new_client(forgettable(AdminClient), {**admin_settings(kafka), "log_level": 2})


def checked(kafka: KafkaSettings) -> KafkaSettings:
    """Returns the settings; raises `SpoutSdkError` if they have no `bootstrap.servers`."""
    if not kafka.get("bootstrap.servers"):
        raise SpoutSdkError(
            "the Kafka settings have no bootstrap.servers: pass it, or set ACKER_KAFKA__BOOTSTRAP_SERVERS"
        )
    return kafka

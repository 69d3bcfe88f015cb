"""Kafka settings: librdkafka's properties, as everywhere in this project, for Spark's Java client.

Most names are the same in both. What is written differently is translated, what only librdkafka knows is left out; how
to get in is a matter of its own, `kafka_security`. Options for Spark itself, such as `minPartitions`, are not Kafka's
and are given separately.
"""

import threading
import time
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from kafka_clients.access import Operation, Role, no_entry, remedy, shortfall
from kafka_clients.client_settings import consumers, for_admin, producers
from kafka_clients.forgotten_clients import forgettable
from spark_jobs.errors import SparkJobError, TopicsRefusedError
from spark_jobs.kafka_security import PREFIXES, security_options

_RENAMED: Final = {"metadata.broker.list": "bootstrap.servers"}
_LIBRDKAFKA_ONLY: Final = (
    "log",
    "debug",
    "statistics.",
    "topic.metadata.",
    "queued.",
    "queue.buffering.",
    "fetch.queue.",
    "socket.timeout.ms",
    "socket.keepalive",
    "enable.gapless.",
    "message.timeout.ms",
    "message.send.max.retries",
    "error_cb",
)
# Spark sets these itself, and refuses them.
_SPARKS_OWN: Final = ("auto.offset.reset", "enable.auto.", "group.id", "partition.assignment.", "interceptor.classes")
# A micro-batch is written at once: large requests, and a packed ack batch gains nothing from waiting.
_PRODUCER: Final = {"acks": "all", "compression.type": "lz4", "linger.ms": "5", "batch.size": "131072"}
# A fetch is asked for when the last one is used up: large ones halve the time that reading takes.
# What was aborted must not be processed; Java reads it unless told otherwise, and librdkafka does not.
_CONSUMER: Final = {"max.partition.fetch.bytes": str(8 * 1024 * 1024), "isolation.level": "read_committed"}
_PREFIX: Final = "kafka."
_METADATA_SECONDS: Final = 10.0
_KNOWN_SECONDS: Final = 5.0
"""How long a broker may know nothing of a topic that was just created."""
_LOOK_SECONDS: Final = 0.1
_KEPT_OUT: Final = (KafkaError._AUTHENTICATION, KafkaError._SSL)
_HIDDEN: Final = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.UNKNOWN_TOPIC_OR_PART)
_USED: Final = (Operation.READ, Operation.WRITE)


def source_options(kafka: Mapping[str, Any]) -> dict[str, str]:
    """Options of Spark's Kafka source."""
    return _options({**_CONSUMER, **consumers(_checked(kafka))})


def sink_options(kafka: Mapping[str, Any]) -> dict[str, str]:
    """Options of Spark's Kafka sink."""
    return _options({**_PRODUCER, **producers(_checked(kafka))})


def check_topics(kafka: Mapping[str, Any], partitions: Mapping[str, int]) -> None:
    """Checks that topics exist with these numbers of partitions.

    Raises:
        TopicsRefusedError: if they do not, this user may not see them, or the broker cannot be asked.
    """
    admin, errors = _admin(kafka)
    try:
        found = admin.list_topics(timeout=_METADATA_SECONDS).topics
        allowed = _allowed(admin, [topic for topic in partitions if topic not in found])
    except KafkaException as error:
        raise _unreachable(kafka, admin, errors, error) from error
    for topic, wanted in partitions.items():
        if topic not in found:
            if hidden := shortfall((), allowed[topic]):
                raise TopicsRefusedError(f"topic {topic} {hidden}: {remedy()}")
            raise TopicsRefusedError(f"topic {topic} does not exist: acker topics create MODULE:TOPOLOGY makes it")
        has = len(found[topic].partitions)
        if has != wanted:
            raise TopicsRefusedError(
                f"topic {topic} has {has} partitions and the topology says {wanted}: give both the same number, or "
                "the topology another name"
            )


def topic_id(kafka: Mapping[str, Any], topic: str) -> str:
    """What tells a source topic from others of its name, as Kafka's tools print it.

    Raises:
        TopicsRefusedError: if there is no such topic, or the broker cannot be asked.
    """
    admin, errors = _admin(kafka)
    end, pause = time.monotonic() + _KNOWN_SECONDS, threading.Event()
    while True:
        try:
            answers = admin.describe_topics(TopicCollection([topic]), request_timeout=_METADATA_SECONDS)
            return str(answers[topic].result().topic_id)
        except KafkaException as error:
            code = error.args[0].code()
            if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise TopicsRefusedError(f"source topic {topic} may not be read by this user: {remedy()}") from error
            if code != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise _unreachable(kafka, admin, errors, error) from error
            if time.monotonic() >= end:
                raise TopicsRefusedError(f"source topic {topic} does not exist: create it, or name another") from error
        pause.wait(_LOOK_SECONDS)


def check_access(kafka: Mapping[str, Any], role: Role) -> None:
    """Checks that this user may read and write what its role has to; topics that do not exist are skipped.

    Optional permissions are skipped as well.

    Raises:
        TopicsRefusedError: if it may not, or the broker cannot be asked.
    """
    # Whether a topic is needed that would have to be created, only the job knows.
    uses = {topic: needed for topic, needed in role.needed_topics.items() if Operation.CREATE not in needed}
    admin, errors = _admin(kafka)
    try:
        allowed = _allowed(admin, list(uses))
    except KafkaException as error:
        raise _unreachable(kafka, admin, errors, error) from error
    for topic, needed in uses.items():
        if lacking := shortfall(tuple(each for each in needed if each in _USED), allowed[topic]):
            raise TopicsRefusedError(f"topic {topic} {lacking}: {remedy(role.name)}")


def _admin(kafka: Mapping[str, Any]) -> tuple[AdminClient, list[KafkaError]]:
    """A client, and the errors that it reports."""
    errors: list[KafkaError] = []
    settings = {**for_admin(_checked(kafka)), "log_level": 2, "error_cb": errors.append}
    try:
        return forgettable(AdminClient)(settings), errors
    except KafkaException as error:
        raise SparkJobError(f"the Kafka settings cannot be used: {error.args[0].str()}; correct them") from error


def _unreachable(
    kafka: Mapping[str, Any], admin: AdminClient, errors: list[KafkaError], error: KafkaException
) -> TopicsRefusedError:
    admin.poll(0)
    servers = kafka["bootstrap.servers"]
    for each in errors:
        if each.code() in _KEPT_OUT:
            return TopicsRefusedError(no_entry(servers, each.str()))
    return TopicsRefusedError(f"no Kafka answers at {servers}: {error.args[0]}; check bootstrap.servers")


def _allowed(admin: AdminClient, topics: list[str]) -> dict[str, frozenset[str] | None]:
    """What this user may do with topics; None for one that does not exist, or if the cluster does not say."""
    if not topics:
        return {}
    described = admin.describe_topics(
        TopicCollection(topics), include_authorized_operations=True, request_timeout=_METADATA_SECONDS
    )
    found: dict[str, frozenset[str] | None] = {}
    for topic, answer in described.items():
        try:
            operations = answer.result().authorized_operations
        except KafkaException as error:
            code = error.args[0].code()
            if code not in _HIDDEN:
                raise
            found[topic] = frozenset() if code == KafkaError.TOPIC_AUTHORIZATION_FAILED else None
        else:
            found[topic] = None if operations is None else frozenset(each.name for each in operations)
    return found


def _checked(kafka: Mapping[str, Any]) -> Mapping[str, Any]:
    if not kafka.get("bootstrap.servers"):
        raise SparkJobError(
            "the Kafka settings have no bootstrap.servers: pass it, or set ACKER_KAFKA__BOOTSTRAP_SERVERS"
        )
    return kafka


def _options(kafka: Mapping[str, Any]) -> dict[str, str]:
    options = {_PREFIX + name: value for name, value in security_options(kafka).items()}
    for name, value in kafka.items():
        if name.startswith((*_LIBRDKAFKA_ONLY, *_SPARKS_OWN, *PREFIXES)):
            continue
        options[_PREFIX + _RENAMED.get(name, name)] = str(value).lower() if isinstance(value, bool) else str(value)
    return options

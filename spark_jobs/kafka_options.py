"""Kafka settings: librdkafka's properties, as everywhere in this project, for Spark's Java client.

Most names are the same in both. What is written differently is translated; what only librdkafka knows is left out.
Options for Spark itself, such as `minPartitions`, are not Kafka's and are given separately.
"""

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from spark_jobs.errors import SparkJobError, TopicsRefusedError
from tuple_tree.client_settings import for_admin, for_consumer, for_producer

_RENAMED: Final = {"metadata.broker.list": "bootstrap.servers", "sasl.mechanisms": "sasl.mechanism"}
_TRANSLATED: Final = ("sasl.username", "sasl.password", "ssl.ca.location")
_LIBRDKAFKA_ONLY: Final = (
    "log",
    "debug",
    "statistics.",
    "queued.",
    "queue.buffering.",
    "fetch.queue.",
    "socket.timeout.ms",
    "socket.keepalive",
    "enable.ssl.",
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
_CONSUMER: Final = {"max.partition.fetch.bytes": str(8 * 1024 * 1024)}
_PREFIX: Final = "kafka."
_METADATA_SECONDS: Final = 10.0


def source_options(kafka: Mapping[str, Any]) -> dict[str, str]:
    """Options of Spark's Kafka source."""
    return _options({**_CONSUMER, **for_consumer(_checked(kafka))})


def sink_options(kafka: Mapping[str, Any]) -> dict[str, str]:
    """Options of Spark's Kafka sink."""
    return _options({**_PRODUCER, **for_producer(_checked(kafka))})


def check_topics(kafka: Mapping[str, Any], partitions: Mapping[str, int]) -> None:
    """Checks that topics exist with these numbers of partitions.

    Raises:
        TopicsRefusedError: if they do not, or the broker cannot be asked.
    """
    admin = AdminClient({**for_admin(_checked(kafka)), "log_level": 2})
    try:
        found = admin.list_topics(timeout=_METADATA_SECONDS).topics
    except KafkaException as error:
        raise TopicsRefusedError(
            f"no Kafka answers at {kafka['bootstrap.servers']}: {error.args[0]}; check bootstrap.servers"
        ) from error
    for topic, wanted in partitions.items():
        if topic not in found:
            raise TopicsRefusedError(f"topic {topic} does not exist: acker topics create MODULE:TOPOLOGY makes it")
        has = len(found[topic].partitions)
        if has != wanted:
            raise TopicsRefusedError(
                f"topic {topic} has {has} partitions and the topology says {wanted}: give both the same number, or "
                "the topology another name"
            )


def _checked(kafka: Mapping[str, Any]) -> Mapping[str, Any]:
    if not kafka.get("bootstrap.servers"):
        raise SparkJobError(
            "the Kafka settings have no bootstrap.servers: pass it, or set ACKER_KAFKA__BOOTSTRAP_SERVERS"
        )
    return kafka


def _options(kafka: Mapping[str, Any]) -> dict[str, str]:
    options = {}
    for name, value in kafka.items():
        if name.startswith((*_LIBRDKAFKA_ONLY, *_SPARKS_OWN)) or name in _TRANSLATED:
            continue
        options[_PREFIX + _RENAMED.get(name, name)] = str(value).lower() if isinstance(value, bool) else str(value)
    if "sasl.username" in kafka:
        options[_PREFIX + "sasl.jaas.config"] = _jaas(kafka)
    if "ssl.ca.location" in kafka:
        options[_PREFIX + "ssl.truststore.type"] = "PEM"
        options[_PREFIX + "ssl.truststore.location"] = str(kafka["ssl.ca.location"])
    return options


def _jaas(kafka: Mapping[str, Any]) -> str:
    mechanism = str(kafka.get("sasl.mechanism", kafka.get("sasl.mechanisms", "PLAIN")))
    module = "scram.ScramLoginModule" if mechanism.startswith("SCRAM") else "plain.PlainLoginModule"
    said = {"username": kafka["sasl.username"], "password": kafka.get("sasl.password", "")}
    told = " ".join(f'{name}="{_quoted(value)}"' for name, value in said.items())
    return f"org.apache.kafka.common.security.{module} required {told};"


def _quoted(value: object) -> str:
    return str(value).replace("\\", "\\\\").replace('"', '\\"')

"""Kafka settings, librdkafka's properties as everywhere in this project, for Spark's Java client; checks of topics.

Most names are the same in both. What is written differently is translated, what only librdkafka knows is left out.
"""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException

from kafka_clients.access import Operation, Role, remedy, shortfall
from kafka_clients.catalogue import Catalogue
from kafka_clients.client_settings import consumers, producers
from kafka_clients.errors import AccessError, ClusterError
from spark_jobs.errors import SparkJobError, TopicsRefusedError
from spark_jobs.kafka_security import PREFIXES, security_options

_RENAMED: Final = {"metadata.broker.list": "bootstrap.servers", "fetch.wait.max.ms": "fetch.max.wait.ms"}
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
# What was aborted must not be processed; Java reads it unless set otherwise, and librdkafka does not.
# A consumer fetches ahead, at the end of the log too. Spark then asks it for offsets, and a broker answers the requests
# of a connection in turn: each task would wait for the 500 ms that a fetch without records takes unless set.
_CONSUMER: Final = {
    "max.partition.fetch.bytes": str(8 * 1024 * 1024),
    "fetch.max.wait.ms": "20",
    "isolation.level": "read_committed",
}
_FILES: Final = ("ssl.ca", "ssl.certificate", "ssl.key")

_CONTACT_SECONDS: Final = 10.0
_KNOWN_SECONDS: Final = 5.0
"""How long a broker may not know a topic that was just created."""
_LOOK_SECONDS: Final = 0.1


def source_options(kafka: Mapping[str, Any]) -> dict[str, str]:
    """Options of Spark's Kafka source."""
    return _options({**_CONSUMER, **consumers(_checked(kafka))})


def sink_options(kafka: Mapping[str, Any]) -> dict[str, str]:
    """Options of Spark's Kafka sink."""
    return _options({**_PRODUCER, **producers(_checked(kafka))})


def executor_settings(kafka: Mapping[str, Any]) -> dict[str, Any]:
    """Librdkafka's settings with the contents of PEM files, which executors need not have."""
    settings = dict(kafka)
    for name in _FILES:
        path = Path(str(settings.get(f"{name}.location", "")))
        if f"{name}.location" in settings and path.is_file():
            del settings[f"{name}.location"]
            settings.setdefault(f"{name}.pem", path.read_text())
    return settings


@contextmanager
def catalogue_of(kafka: Mapping[str, Any]) -> Iterator[Catalogue]:
    """The cluster, whose errors within the block become ours."""
    try:
        catalogue = Catalogue(_checked(kafka), _CONTACT_SECONDS, first_s=_CONTACT_SECONDS)
    except KafkaException as error:
        raise SparkJobError(f"the Kafka settings cannot be used: {error.args[0].str()}; correct them") from error
    try:
        yield catalogue
    except ClusterError as error:
        raise TopicsRefusedError(str(error)) from error


def check_topics(kafka: Mapping[str, Any], partitions: Mapping[str, int]) -> None:
    """Checks that topics exist with these numbers of partitions."""
    with catalogue_of(kafka) as catalogue:
        existing = catalogue.topics()
        allowed = catalogue.allowed(topic for topic in partitions if topic not in existing)
    for topic, wanted in partitions.items():
        if topic not in existing:
            if hidden := shortfall((), allowed[topic]):
                raise TopicsRefusedError(f"topic {topic} {hidden}: {remedy()}")
            raise TopicsRefusedError(f"topic {topic} does not exist: acker topics create MODULE:TOPOLOGY makes it")
        if existing[topic] != wanted:
            raise TopicsRefusedError(
                f"topic {topic} has {existing[topic]} partitions and the topology says {wanted}: give both the same "
                "number, or the topology another name"
            )


def topic_id(kafka: Mapping[str, Any], topic: str) -> str:
    """The id of a source topic, which tells it from others of its name."""
    end, pause = time.monotonic() + _KNOWN_SECONDS, threading.Event()
    with catalogue_of(kafka) as catalogue:
        try:
            while (found := catalogue.topic_id(topic)) is None:
                if time.monotonic() >= end:
                    raise TopicsRefusedError(f"source topic {topic} does not exist: create it, or name another")
                pause.wait(_LOOK_SECONDS)
        except AccessError as error:
            raise TopicsRefusedError(f"source topic {topic} may not be read by this user: {error}") from error
    return found


def check_access(kafka: Mapping[str, Any], role: Role) -> None:
    """Checks that this user may read and write what its role has to; topics that do not exist are skipped."""
    # Whether a topic is needed that would have to be created, only the job knows.
    permissions = tuple(each for each in role.permissions if Operation.CREATE not in each.operations)
    with catalogue_of(kafka) as catalogue:
        catalogue.check_access(replace(role, permissions=permissions))


def _checked(kafka: Mapping[str, Any]) -> Mapping[str, Any]:
    if not kafka.get("bootstrap.servers"):
        raise SparkJobError(
            "the Kafka settings have no bootstrap.servers: pass it, or set ACKER_KAFKA__BOOTSTRAP_SERVERS"
        )
    return kafka


def _options(kafka: Mapping[str, Any]) -> dict[str, str]:
    options = dict(security_options(kafka))
    for name, value in kafka.items():
        if not name.startswith((*_LIBRDKAFKA_ONLY, *_SPARKS_OWN, *PREFIXES)):
            options[_RENAMED.get(name, name)] = str(value).lower() if isinstance(value, bool) else str(value)
    return {f"kafka.{name}": value for name, value in options.items()}

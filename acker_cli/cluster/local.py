"""The embedded broker of a command, and the topics of `--local`: created, and filled from files or standard input."""

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from rich.console import Console

from acker_cli.cluster.publishing import grown_inboxes
from acker_cli.errors import SettingsError
from acker_cli.settings import LoadedSettings
from acker_cli.settings.sections import KafkaProperties, LocalKafkaSection
from kafka_clients.catalogue import Catalogue
from kafka_clients.client_settings import for_producer
from kafka_clients.new_topics import create_missing
from kafka_clients.repeated_lines import client_logger, get_logger
from spout_sdk import Topology

if TYPE_CHECKING:
    from local_kafka import LocalKafka

logger = get_logger(__name__)

# Access to a cluster; the embedded broker takes none of it.
_ACCESS: Final = ("bootstrap.servers", "metadata.broker.list", "security.", "sasl.", "ssl.", "enable.ssl.")
_STDIN: Final = "-"
_SECONDS: Final = 30.0
_ROOM_SECONDS: Final = 0.1
_LAST_SECONDS: Final = 3.0


@contextmanager
def embedded_kafka(loaded: LoadedSettings, console: Console) -> "Iterator[tuple[LocalKafka, KafkaProperties]]":
    """Starts the embedded broker, and stops it in the end; yields it with the properties of its clients."""
    kept = {name: value for name, value in loaded.settings.kafka.items() if not name.startswith(_ACCESS)}
    loaded.check_kafka(kept)
    broker = embedded_broker(loaded.settings.local_kafka, console)
    try:
        broker.start()
        yield broker, {**kept, "bootstrap.servers": broker.bootstrap_servers}
    finally:
        broker.stop()


def embedded_broker(section: LocalKafkaSection, console: Console) -> "LocalKafka":
    """The embedded broker of the settings, not started yet."""
    from local_kafka import LocalKafka
    from local_kafka.distribution import CACHE_VARIABLE, REPOSITORY_VARIABLE

    for variable, value in ((CACHE_VARIABLE, section.cache), (REPOSITORY_VARIABLE, section.repository)):
        if value is not None:
            os.environ[variable] = str(value)
    return LocalKafka(
        data_dir=section.data_dir,
        port=section.port,
        properties=section.properties,
        heap=section.heap,
        console=console,
    )


@dataclass(frozen=True, slots=True)
class Feed:
    """A file, or `-` for standard input, whose lines become the messages of a topic."""

    topic: str
    path: str


def feeds_of(topology: Topology, given: Sequence[str]) -> list[Feed]:
    """Reads `TOPIC=FILE` of the command line; an error if no spout reads such a topic, or there is no such file."""
    feeds, known = [], source_topics(topology)
    for each in given:
        topic, separator, path = each.partition("=")
        if not (topic and separator and path):
            raise SettingsError(f"--feed takes TOPIC=FILE, such as --feed clicks=clicks.jsonl, not {each!r}")
        if topic not in known:
            read = ", ".join(known) or "none"
            raise SettingsError(
                f"--feed {each}: no spout of topology {topology.name} reads topic {topic}; it reads {read}"
            )
        if path != _STDIN and not Path(path).is_file():
            raise SettingsError(f"--feed {each}: there is no file {path}")
        feeds.append(Feed(topic, path))
    return feeds


def source_topics(topology: Topology) -> dict[str, int]:
    """The topics that the spouts of a topology read, with as many partitions as the spout has tasks."""
    partitions: dict[str, int] = {}
    for spout, topics in topology.sources.items():
        for topic in (topics,) if isinstance(topics, str) else topics or ():
            partitions[topic] = max(partitions.get(topic, 1), topology.manifest.component(spout).tasks)
    return partitions


def create_topics(kafka: Mapping[str, Any], topology: Topology, replication_factor: int) -> None:
    """Creates what is missing: its own topics, the sources of spouts, and the targets of `KafkaBolt`s and outcomes."""
    catalogue = Catalogue(kafka)
    for topic, partitions in grown_inboxes(catalogue, topology.manifest).items():
        catalogue.add_partitions(topic, partitions)
    catalogue.create_topics(topology.manifest, replication_factor)
    catalogue.publish(topology.manifest)
    writers = {**topology.kafka_targets, **topology.manifest.outcome_topics}
    targets = {topic: topology.manifest.component(name).tasks for name, topic in writers.items()}
    create_missing(catalogue, {**targets, **source_topics(topology)}, replication_factor)


@contextmanager
def feeding(kafka: Mapping[str, Any], feeds: Sequence[Feed], console: Console) -> Iterator[None]:
    """Writes each line of some files as a message, in threads, while the topology runs."""
    ending = threading.Event()
    settings = {**for_producer(kafka), "enable.idempotence": True, "logger": client_logger("acker_cli")}
    producers = [Producer(settings) for _ in feeds]
    for feed, producer in zip(feeds, producers, strict=True):
        arguments = (producer, feed, console, ending)
        threading.Thread(target=_feed, args=arguments, name=f"feed {feed.topic}", daemon=True).start()
    try:
        yield
    finally:
        ending.set()
        # Its thread may wait for standard input, and outlive the broker.
        for producer in producers:
            producer.flush(_LAST_SECONDS)


def _feed(producer: Producer, feed: Feed, console: Console, ending: threading.Event) -> None:
    try:
        # Not `sys.stdin`, on whose lock the interpreter aborts at its end if a thread still reads.
        with open(os.dup(0) if feed.path == _STDIN else feed.path, "rb") as file:
            messages = _write(producer, feed.topic, file, ending)
    except (OSError, KafkaException) as error:
        logger.error("--feed %s=%s ends: %s", feed.topic, feed.path, error)
        return
    console.print(f"fed {messages:,} messages into {feed.topic}")


def _write(producer: Producer, topic: str, file: BinaryIO, ending: threading.Event) -> int:
    """Writes lines until the end of the file, or until `ending`; returns how many were delivered."""
    delivered = 0

    def report(error: KafkaError | None, _message: Message) -> None:
        nonlocal delivered
        if error is None:
            delivered += 1
        else:
            logger.error("a line was not delivered to %s: %s", topic, error)

    for line in file:
        while not ending.is_set():
            try:
                producer.produce(topic, line.rstrip(b"\r\n"), on_delivery=report)
                break
            except BufferError:
                producer.poll(_ROOM_SECONDS)
        if ending.is_set():
            return delivered
        producer.poll(0)
    if not ending.is_set() and (left := producer.flush(_SECONDS)):
        logger.error("%d lines were not delivered to %s within %g s", left, topic, _SECONDS)
    return delivered

"""The cluster's side of a topology: its topics, and its manifest in `acker.topologies`.

Everything here is bounded in time and turns Kafka's errors into ours.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from acker_worker.errors import BrokerUnreachableError, TopicError, UnknownTopologyError
from tuple_tree.client_settings import for_admin, for_producer
from tuple_tree.errors import ManifestError
from tuple_tree.manifest import Manifest
from tuple_tree.names import TOPOLOGIES_TOPIC
from tuple_tree.topics import TopicSpec, topic_specs

KafkaSettings = Mapping[str, str | int | float | bool]
"""librdkafka properties, `bootstrap.servers` among them."""

CONTACT_S: Final = 8.0
"""How long a broker may take to answer, in seconds."""
_QUIET: Final = {"log_level": 0, "socket.connection.setup.timeout.ms": 5_000}


class Catalogue:
    """What the cluster knows about topologies.

    Args:
        kafka: how to reach it.
        contact_s: how long a broker may take to answer, in seconds.
    """

    def __init__(self, kafka: KafkaSettings, contact_s: float = CONTACT_S) -> None:
        self._kafka = dict(kafka)
        self._contact_s = contact_s
        self._admin = AdminClient({**_QUIET, **for_admin(kafka)})

    def topics(self) -> dict[str, int]:
        """All topics with their numbers of partitions.

        Raises:
            BrokerUnreachableError: if no broker answers in time.
        """
        with self._contact():
            metadata = self._admin.list_topics(timeout=self._contact_s)
        return {name: len(topic.partitions) for name, topic in metadata.topics.items()}

    def create_topics(self, manifest: Manifest, replication_factor: int = -1) -> list[str]:
        """Creates the topics of a topology that do not exist yet, and returns their names.

        Args:
            manifest: the topology.
            replication_factor: of each topic; -1 takes the broker's default.

        Raises:
            BrokerUnreachableError: if no broker answers in time.
            TopicError: if a topic cannot be created, or exists and is not as it has to be.
        """
        existing = self.topics()
        missing = [spec for spec in topic_specs(manifest) if spec.name not in existing]
        new = [
            NewTopic(spec.name, spec.partitions, replication_factor=replication_factor, config=spec.config)
            for spec in missing
        ]
        if new:
            for name, created in self._admin.create_topics(new, operation_timeout=self._contact_s).items():
                try:
                    created.result()
                except KafkaException as error:
                    if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                        raise TopicError(name, f"could not be created: {error.args[0].str()}") from error
            self._await_topics({spec.name for spec in missing})
        problems = self.problems(topic_specs(manifest))
        if problems:
            raise problems[0]
        return [spec.name for spec in missing]

    def problems(self, specs: list[TopicSpec]) -> list[TopicError]:
        """What is wrong with topics, each finding with what to do; empty if they are as they have to be.

        Raises:
            BrokerUnreachableError: if no broker answers in time.
        """
        existing = self.topics()
        found: list[TopicError] = []
        present = []
        for spec in specs:
            if spec.name not in existing:
                found.append(TopicError(spec.name, "does not exist. Create it: acker topics create MODULE:TOPOLOGY"))
            elif existing[spec.name] != spec.partitions:
                found.append(
                    TopicError(
                        spec.name,
                        f"has {existing[spec.name]} partitions, but the manifest says {spec.partitions}. A running "
                        "topology keeps its partitions: set the manifest's number back, or use a new topology name",
                    )
                )
            else:
                present.append(spec)
        configs = self._configs([spec.name for spec in present])
        for spec in present:
            for key, wanted in spec.required.items():
                actual = configs[spec.name].get(key)
                if actual != wanted:
                    found.append(
                        TopicError(
                            spec.name,
                            f"has {key}={actual}, but it must be {wanted}. Change it: kafka-configs --alter "
                            f"--entity-type topics --entity-name {spec.name} --add-config {key}={wanted}",
                        )
                    )
        return found

    def publish(self, manifest: Manifest) -> None:
        """Writes the manifest into `acker.topologies`, where it replaces an earlier one.

        Raises:
            BrokerUnreachableError: if it is not acknowledged in time.
        """
        failures: list[KafkaError] = []
        producer = Producer({**_QUIET, **for_producer(self._kafka), "acks": "all"})
        producer.produce(
            TOPOLOGIES_TOPIC,
            key=manifest.topology.encode(),
            value=manifest.to_json(),
            partition=0,
            on_delivery=lambda error, _message: failures.append(error) if error else None,
        )
        if producer.flush(self._contact_s) or failures:
            why = failures[0].str() if failures else f"no acknowledgement within {self._contact_s:g} s"
            raise BrokerUnreachableError(f"the manifest of {manifest.topology} could not be published: {why}")

    def manifest(self, topology: str) -> Manifest:
        """The manifest of a topology.

        Raises:
            BrokerUnreachableError: if no broker answers in time.
            UnknownTopologyError: if there is none of that name; the error names those that are.
            ManifestError: if it cannot be read.
        """
        values = self._published()
        if topology not in values:
            raise UnknownTopologyError(topology, sorted(values))
        return Manifest.from_json(values[topology])

    def manifests(self) -> dict[str, Manifest | ManifestError]:
        """All manifests by topology; an error in place of one that cannot be read."""
        found: dict[str, Manifest | ManifestError] = {}
        for topology, value in self._published().items():
            try:
                found[topology] = Manifest.from_json(value)
            except ManifestError as error:
                found[topology] = error
        return found

    def _published(self) -> dict[str, bytes]:
        """The latest value of each key of `acker.topologies`."""
        if TOPOLOGIES_TOPIC not in self.topics():
            return {}
        values: dict[str, bytes] = {}
        consumer = Consumer(
            {
                **_QUIET,
                **self._kafka,
                "group.id": "acker.catalogue",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 50,
            }
        )
        try:
            with self._contact():
                low, high = consumer.get_watermark_offsets(
                    TopicPartition(TOPOLOGIES_TOPIC, 0), timeout=self._contact_s, cached=False
                )
            consumer.assign([TopicPartition(TOPOLOGIES_TOPIC, 0, low)])
            deadline = time.monotonic() + self._contact_s
            while consumer.position([TopicPartition(TOPOLOGIES_TOPIC, 0)])[0].offset < high and low < high:
                if time.monotonic() > deadline:
                    raise BrokerUnreachableError(
                        f"{TOPOLOGIES_TOPIC} could not be read within {self._contact_s:g} s: check the brokers"
                    )
                for message in consumer.consume(500, 0.1):
                    error, key, value = message.error(), message.key(), message.value()
                    if error or key is None:
                        continue
                    name = _text(key)
                    if value is None:
                        values.pop(name, None)
                    else:
                        values[name] = _bytes(value)
        finally:
            consumer.close()
        return values

    def _configs(self, topics: list[str]) -> dict[str, dict[str, str | None]]:
        if not topics:
            return {}
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        with self._contact():
            described = self._admin.describe_configs(resources, request_timeout=self._contact_s)
            return {
                resource.name: {key: entry.value for key, entry in result.result().items()}
                for resource, result in described.items()
            }

    def _await_topics(self, names: set[str]) -> None:
        """Waits until the brokers' metadata shows topics that were just created."""
        deadline = time.monotonic() + self._contact_s
        while missing := names - set(self.topics()):
            if time.monotonic() > deadline:
                raise TopicError(min(missing), f"was created but is not visible after {self._contact_s:g} s")

    @contextmanager
    def _contact(self) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            servers = self._kafka.get("bootstrap.servers", "nowhere: bootstrap.servers is not set")
            raise BrokerUnreachableError(
                f"no broker answers at {servers} ({error.args[0].str()}). "
                "Start one, or set --bootstrap-servers or ACKER_KAFKA__BOOTSTRAP_SERVERS to where it is"
            ) from error


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode(errors="replace")


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value

"""The cluster's side of a topology: its topics, and its manifest in `acker.topologies`.

Everything here is bounded in time and turns Kafka's errors into ours.
"""

import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import ConfigResource, NewTopic, ResourceType, TopicDescription

from kafka_clients.access import ACKER, OPERATOR, Role, remedy, shortfall
from kafka_clients.client_settings import for_consumer, for_producer
from kafka_clients.contact import QUIET, REFUSED, Contact
from kafka_clients.errors import BrokerUnreachableError, TopicError, UnknownTopologyError
from kafka_clients.stats_publisher import StatsPublisher
from kafka_clients.topic_watch import TopicWatch
from kafka_clients.watermarks import watermarks
from tuple_tree.errors import ManifestError
from tuple_tree.manifest import Manifest
from tuple_tree.names import CATALOGUE_GROUP, TOPOLOGIES_TOPIC, acks_topic
from tuple_tree.topics import TopicSpec, short_retention, topic_specs

KafkaSettings = Mapping[str, str | int | float | bool]
"""librdkafka properties, `bootstrap.servers` among them."""

CONTACT_S: Final = 8.0
"""How long a broker may take to answer, in seconds."""
_SHORTEST_CONTACT_S: Final = 1.0
_LOOK_S: Final = 0.2


class Catalogue:
    """What the cluster knows about topologies.

    Args:
        kafka: how to reach it.
        contact_s: how long a broker may take to answer, in seconds.
        group: in whose name manifests are read, for it may be that the user is allowed no other; it is not joined.
    """

    def __init__(self, kafka: KafkaSettings, contact_s: float = CONTACT_S, group: str = CATALOGUE_GROUP) -> None:
        self._kafka = dict(kafka)
        self._contact_s = contact_s
        self._group = group
        contact = Contact(kafka)
        self._admin, self._contact = contact.admin, contact.asking

    def reach(self) -> None:
        """Makes sure that a broker answers; Ctrl-C interrupts it.

        Raises:
            BrokerUnreachableError: if none does within 3 seconds.
            AccessError: if this user is not let in.
        """
        with self._contact():
            pass

    def topics(self, contact_s: float | None = None) -> dict[str, int]:
        """All topics with their numbers of partitions.

        Args:
            contact_s: how long a broker may take to answer this time, in seconds.

        Raises:
            BrokerUnreachableError: if no broker answers in time.
        """
        with self._contact():
            metadata = self._admin.list_topics(timeout=contact_s or self._contact_s)
        return {name: len(topic.partitions) for name, topic in metadata.topics.items()}

    def topic_id(self, topic: str, contact_s: float | None = None) -> str | None:
        """What tells a topic from one of the same name that was deleted; None if there is none.

        Args:
            topic: its name.
            contact_s: as above.

        Raises:
            BrokerUnreachableError: if no broker answers in time.
            AccessError: if it may not be described.
        """
        with self._contact():
            asked = self._admin.describe_topics(TopicCollection([topic]), request_timeout=contact_s or self._contact_s)
            try:
                return str(asked[topic].result().topic_id)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise
                return None

    def await_brokers(self, count: int, seconds: float) -> None:
        """Waits until so many brokers are up: a topic cannot have more copies than there are brokers.

        Raises:
            BrokerUnreachableError: if they are not in that time.
        """
        deadline = time.monotonic() + seconds
        pause = threading.Event()
        while True:
            left = deadline - time.monotonic()
            found: int | str
            try:
                # A future, which Ctrl-C interrupts.
                asked = self._admin.describe_cluster(request_timeout=max(_SHORTEST_CONTACT_S, left))
                found = len(asked.result().nodes)
                if found >= count:
                    return
            except KafkaException as error:
                found = error.args[0].str()
            if left <= 0:
                raise BrokerUnreachableError(
                    f"brokers needed: {count}; found after {seconds:g} s: {found}. Start more, or create topics with "
                    "fewer copies: --set topics.replication_factor=1"
                )
            pause.wait(_LOOK_S)

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
            for name, created in self._admin.create_topics(
                new, operation_timeout=self._contact_s, request_timeout=3 * self._contact_s
            ).items():
                try:
                    created.result()
                except KafkaException as error:
                    if error.args[0].code() in REFUSED:
                        raise TopicError(name, f"may not be created by this user: {remedy(OPERATOR)}") from error
                    if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                        raise TopicError(name, f"could not be created: {error.args[0].str()}") from error
        created_names = [spec.name for spec in missing]
        self._await_sound(topic_specs(manifest), created_names)
        return created_names

    def problems(self, specs: list[TopicSpec]) -> list[TopicError]:
        """What is wrong with topics, each finding with what to do; empty if they are as they have to be.

        Raises:
            BrokerUnreachableError: if no broker answers in time.
        """
        existing = self.topics()
        allowed = self._allowed(spec.name for spec in specs if spec.name not in existing)
        found: list[TopicError] = []
        present = []
        for spec in specs:
            if hidden := shortfall((), allowed.get(spec.name)):
                found.append(TopicError(spec.name, f"{hidden}: {remedy()}"))
            elif spec.name not in existing:
                found.append(_missing(spec.name))
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
            config = configs.get(spec.name)
            if config is None:
                found.append(_missing(spec.name))
                continue
            for key, wanted in spec.required.items():
                actual = config.get(key)
                if actual != wanted:
                    found.append(
                        TopicError(
                            spec.name,
                            f"has {key}={actual}, but it must be {wanted}. Change it: kafka-configs --alter "
                            f"--entity-type topics --entity-name {spec.name} --add-config {key}={wanted}",
                        )
                    )
        return found

    def check_access(self, role: Role) -> None:
        """Checks that this user may do with each topic what its role has to; topics that do not exist are skipped.

        Raises:
            BrokerUnreachableError: if no broker answers in time.
            TopicError: if it may not.
        """
        allowed = self._allowed(role.needed_topics)
        for topic, needed in role.needed_topics.items():
            if lacking := shortfall(needed, allowed[topic]):
                raise TopicError(topic, f"{lacking}: {remedy(role.name)}")

    def short_retention(self, manifest: Manifest) -> str | None:
        """What is to be said of an ack log that forgets too early; None if it does not.

        Raises:
            BrokerUnreachableError: if no broker answers in time.
        """
        topic = acks_topic(manifest.topology)
        config = self._configs([topic]).get(topic)
        if config is None:
            raise _missing(topic)
        return short_retention(manifest, config)

    def watched(self, topics: list[str]) -> TopicWatch:
        """Watches topics, without ever waiting for an answer."""
        return TopicWatch(lambda: self._describe(topics), _identity)

    def stats_publisher(self, topology: str, producer: Producer, now: float) -> StatsPublisher:
        """Publishes what an acker worker of a topology does.

        Args:
            topology: its name.
            producer: sends it; made with `producer_settings`.
            now: seconds, of the clock by which it will be told to.
        """
        return StatsPublisher(
            *(topology, "acker", ACKER, producer),
            ask=lambda topic: self._describe([topic]),
            identity=_identity,
            refusal=KafkaException,
            now=now,
        )

    def _describe(self, topics: list[str]) -> dict[str, "Future[TopicDescription]"]:
        return self._admin.describe_topics(TopicCollection(topics), request_timeout=self._contact_s)

    def publish(self, manifest: Manifest) -> None:
        """Writes the manifest into `acker.topologies`, where it replaces an earlier one.

        Raises:
            BrokerUnreachableError: if it is not acknowledged in time.
        """
        self._write(manifest.topology, manifest.to_json())

    def withdraw(self, topology: str) -> None:
        """Takes the manifest of a topology out of `acker.topologies`, whether there is one or not.

        Raises:
            BrokerUnreachableError: if that is not acknowledged in time.
            TopicError: if it may not be written.
        """
        self._write(topology, None)

    def _write(self, topology: str, value: bytes | None) -> None:
        failures: list[KafkaError] = []
        producer = Producer({**for_producer({**QUIET, **self._kafka}), "acks": "all"})
        producer.produce(
            TOPOLOGIES_TOPIC,
            key=topology.encode(),
            value=value,
            partition=0,
            on_delivery=lambda error, _message: failures.append(error) if error else None,
        )
        left = producer.flush(self._contact_s)
        if failures and failures[0].code() in REFUSED:
            raise TopicError(TOPOLOGIES_TOPIC, f"may not be written by this user: {remedy(OPERATOR)}")
        if left or failures:
            why = failures[0].str() if failures else f"no acknowledgement within {self._contact_s:g} s"
            done = "withdrawn" if value is None else "published"
            raise BrokerUnreachableError(f"the manifest of {topology} could not be {done}: {why}")

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
            if hidden := shortfall((), self._allowed([TOPOLOGIES_TOPIC])[TOPOLOGIES_TOPIC]):
                raise TopicError(TOPOLOGIES_TOPIC, f"{hidden}: {remedy()}")
            return {}
        values: dict[str, bytes] = {}
        consumer = Consumer(
            {
                **for_consumer({**QUIET, **self._kafka}),
                "group.id": self._group,
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 50,
            }
        )
        try:
            with self._contact():
                low, high = watermarks(consumer, TopicPartition(TOPOLOGIES_TOPIC, 0), self._contact_s)
            consumer.assign([TopicPartition(TOPOLOGIES_TOPIC, 0, low)])
            deadline = time.monotonic() + self._contact_s
            while consumer.position([TopicPartition(TOPOLOGIES_TOPIC, 0)])[0].offset < high and low < high:
                if time.monotonic() > deadline:
                    raise BrokerUnreachableError(
                        f"{TOPOLOGIES_TOPIC} could not be read within {self._contact_s:g} s: check the brokers"
                    )
                for message in consumer.consume(500, 0.1):
                    error, key, value = message.error(), message.key(), message.value()
                    if error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                        raise TopicError(TOPOLOGIES_TOPIC, f"may not be read by this user: {remedy()}")
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
        found = {}
        with self._contact():
            described = self._admin.describe_configs(resources, request_timeout=self._contact_s)
            for resource, result in described.items():
                try:
                    found[resource.name] = {key: entry.value for key, entry in result.result().items()}
                except KafkaException as error:
                    code = error.args[0].code()
                    if code in REFUSED:
                        raise TopicError(
                            resource.name, f"may not be asked for its settings by this user: {remedy()}"
                        ) from error
                    # Another broker, which learns of it later, or of its deletion sooner.
                    if code != KafkaError.UNKNOWN_TOPIC_OR_PART:
                        raise
        return found

    def _allowed(self, topics: Iterable[str]) -> dict[str, frozenset[str] | None]:
        """What this user may do with topics; None for one that does not exist, or if the cluster does not say."""
        names = list(topics)
        found: dict[str, frozenset[str] | None] = {}
        if not names:
            return found
        with self._contact():
            described = self._admin.describe_topics(
                TopicCollection(names), include_authorized_operations=True, request_timeout=self._contact_s
            )
            for name, result in described.items():
                try:
                    operations = result.result().authorized_operations
                except KafkaException as error:
                    code = error.args[0].code()
                    if code not in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.UNKNOWN_TOPIC_OR_PART):
                        raise
                    found[name] = None if code == KafkaError.UNKNOWN_TOPIC_OR_PART else frozenset()
                else:
                    found[name] = None if operations is None else frozenset(each.name for each in operations)
        return found

    def _await_sound(self, specs: list[TopicSpec], created: list[str]) -> None:
        """Waits until every broker that is asked describes the created topics: brokers learn of them one by one.

        Raises:
            TopicError: if one is not described in time, or one that was there is not as it has to be.
        """
        deadline = time.monotonic() + self._contact_s
        pause = threading.Event()
        while problems := self.problems(specs):
            others = [each for each in problems if not (each.topic in created or each.is_missing)]
            if others or time.monotonic() > deadline:
                raise (others or problems)[0]
            pause.wait(_LOOK_S)


def _missing(topic: str) -> TopicError:
    """The error of a topic that is not there."""
    return TopicError(topic, "does not exist. Create it: acker topics create MODULE:TOPOLOGY", is_missing=True)


def _identity(answer: "Future[TopicDescription]") -> str | None:
    try:
        return str(answer.result().topic_id)
    except KafkaException as error:
        return None if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART else ""


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode(errors="replace")


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value

"""Requests to a cluster: the topics of a topology, and its manifest in `acker.topologies`.

Every call is bounded in time. It raises `BrokerUnreachableError`, `AccessError`, and what a method names.
"""

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
    TopicDescription,
)

from kafka_clients.access import OPERATOR, Role, remedy, shortfall
from kafka_clients.background import answer_of, in_thread
from kafka_clients.client_settings import for_admin, for_producer, new_client
from kafka_clients.errors import REFUSED, AccessError, BrokerUnreachableError, TopicsError, UnknownTopologyError
from kafka_clients.librdkafka_bugs import forgettable
from kafka_clients.log_reader import LogReader
from kafka_clients.new_topics import create
from kafka_clients.retriable import answer_or_error, retrying
from tuple_tree.control import Control, control_key, controlled_topology
from tuple_tree.errors import ControlRecordError, ManifestError
from tuple_tree.manifest import Manifest
from tuple_tree.names import CATALOGUE_GROUP, TOPOLOGIES_TOPIC, acks_topic
from tuple_tree.topics import TopicSpec, short_retention, topic_specs

QUIET: Final = {"log_level": 0, "socket.connection.setup.timeout.ms": 5_000}
"""librdkafka properties of a client whose errors are raised by us."""
FIRST_SECONDS: Final = 3.0  # how long the brokers may take to answer for the first time, in seconds: a person waits
_KEPT_OUT: Final = (KafkaError._AUTHENTICATION, KafkaError._SSL)
_CONNECTING: Final = (KafkaError._TRANSPORT, KafkaError._RESOLVE)
_SINCE: Final = re.compile(r" \(after \d+ms in state .*")


KafkaSettings = Mapping[str, str | int | float | bool]  # librdkafka properties, `bootstrap.servers` among them
CONTACT_SECONDS: Final = 8.0  # how long a broker may take to answer, in seconds
_SHORTEST_CONTACT_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.2


class Catalogue:
    """The topologies that a cluster has: manifests and topics.

    Manifests are read in the name of a group, because the user may have an ACL for no other; it is not joined. A broker
    may take `contact_s` to answer, `first_s` for the first time.
    """

    def __init__(
        self,
        kafka: KafkaSettings,
        contact_s: float = CONTACT_SECONDS,
        group: str = CATALOGUE_GROUP,
        first_s: float | None = None,
    ) -> None:
        self._kafka = dict(kafka)
        self.contact_s = contact_s
        self._group = group
        self._first_s = FIRST_SECONDS if first_s is None else first_s
        self._servers = kafka.get("bootstrap.servers", "nowhere: bootstrap.servers is not set")
        self._errors: list[KafkaError] = []
        settings: dict[str, Any] = {**for_admin({**QUIET, **kafka}), "error_cb": self._errors.append}
        self.admin = new_client(forgettable(AdminClient), settings)
        self._reached = False

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Turns errors of requests in its body into `AccessError` and `BrokerUnreachableError`.

        The first time it makes sure that there is a broker.
        """
        # Earlier errors do not count: brokers that restart cause all kinds of them.
        self.admin.poll(0)
        self._errors.clear()
        try:
            if not self._reached:
                # A future, because Ctrl-C does not interrupt calls that wait within librdkafka. Not `describe_cluster`,
                # see `kafka_clients.librdkafka_bugs`.
                topic = TopicCollection([TOPOLOGIES_TOPIC])
                (answer,) = self.admin.describe_topics(topic, request_timeout=self._first_s).values()
                answer_or_error(answer, KafkaError.UNKNOWN_TOPIC_OR_PART, *REFUSED)
                self._reached = True
            yield
        except KafkaException as error:
            if error.args[0].code() in REFUSED:
                raise AccessError(f"{error.args[0].str()}: {remedy()}") from error
            self.admin.poll(0)
            for each in self._errors:
                if each.code() in _KEPT_OUT:
                    raise AccessError(
                        f"authentication or TLS handshake with {self._servers} failed ({each.str()}): check "
                        "security.protocol and the sasl. and ssl. settings, which acker config show lists"
                    ) from error
            why = next((each for each in self._errors if each.code() in _CONNECTING), error.args[0])
            raise BrokerUnreachableError(
                f"no broker answers at {self._servers} ({_SINCE.sub('', why.str())}). "
                "Start one, or set --bootstrap-servers or ACKER_KAFKA__BOOTSTRAP_SERVERS to where it is"
            ) from error

    def reach(self) -> None:
        """Makes sure that a broker answers within 3 seconds; Ctrl-C interrupts it."""
        with self._asking():
            pass

    def topics(self, contact_s: float | None = None) -> dict[str, int]:
        with self._asking():
            metadata = self.admin.list_topics(timeout=contact_s or self.contact_s)
        return {name: len(topic.partitions) for name, topic in metadata.topics.items()}

    def topic_id(self, topic: str) -> str | None:
        """The id of a topic, which another one of its name does not have; None if there is none."""
        described = self.described([topic])[topic]
        if not isinstance(described, KafkaError):
            return str(described.topic_id)
        if described.code() in REFUSED:
            raise AccessError(f"{described.str()}: {remedy()}")
        return None

    def described(self, topics: Iterable[str]) -> dict[str, TopicDescription | KafkaError]:
        """Kafka's answer for each topic: its description, that it does not exist, or that access is denied."""
        names = list(topics)
        if not names:
            return {}
        with self._asking():
            asked = self.admin.describe_topics(
                TopicCollection(names), include_authorized_operations=True, request_timeout=self.contact_s
            )
            return {
                name: answer_or_error(answer, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED)
                for name, answer in asked.items()
            }

    def await_brokers(self, count: int, seconds: float) -> list[int]:
        """Waits until enough brokers are up, and returns their ids: a topic has a replica on each at most."""
        deadline = time.monotonic() + seconds
        while True:
            left = deadline - time.monotonic()
            up: int | str
            try:
                # A future, which Ctrl-C interrupts.
                brokers = answer_of(in_thread(partial(self._brokers, max(_SHORTEST_CONTACT_SECONDS, left)), "brokers"))
                if (up := len(brokers)) >= count:
                    return brokers
            except KafkaException as error:
                up = error.args[0].str()
            if left <= 0:
                raise BrokerUnreachableError(
                    f"brokers needed: {count}; found after {seconds:g} s: {up}. Start more, or create topics with "
                    "fewer copies: --set topics.replication_factor=1"
                )
            time.sleep(_LOOK_SECONDS)

    def _brokers(self, seconds: float) -> list[int]:
        return [*self.admin.list_topics(timeout=seconds).brokers]

    def create_topics(self, manifest: Manifest, replication_factor: int = -1) -> list[str]:
        """Creates the topics of a topology that do not exist yet, and returns their names.

        A replication factor of -1 is the broker's default. Raises `TopicsError` if a topic cannot be created, or exists
        and is not as it has to be.
        """
        specs = topic_specs(manifest)
        existing = self.topics()
        new = {
            spec.name: NewTopic(spec.name, spec.partitions, replication_factor=replication_factor, config=spec.config)
            for spec in specs
            if spec.name not in existing
        }
        create(self.admin, new.values(), self.contact_s)
        self._await_sound(specs, new)
        return [*new]

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Gives a topic partitions, so that it has that many in all; nothing if it has. Raises `TopicsError`."""
        if self.topics().get(topic, partitions) >= partitions:
            return
        timeouts = {"operation_timeout": self.contact_s, "request_timeout": 3 * self.contact_s}
        for added in self.admin.create_partitions([NewPartitions(topic, partitions)], **timeouts).values():
            try:
                answer_of(added)
            except KafkaException as error:
                needed = "; this user needs the ACL Alter for it" if error.args[0].code() in REFUSED else ""
                raise TopicsError(
                    topic, f"could not get {partitions} partitions: {error.args[0].str()}{needed}"
                ) from error
        deadline = time.monotonic() + self.contact_s
        while self.topics().get(topic) != partitions and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)

    def problems(self, specs: list[TopicSpec]) -> list[TopicsError]:
        existing = self.topics()
        allowed = self.allowed(spec.name for spec in specs if spec.name not in existing)
        configs = self._configs([spec.name for spec in specs if existing.get(spec.name) == spec.partitions])
        return [problem for spec in specs for problem in _problems(spec, existing, allowed, configs)]

    def check_access(self, role: Role) -> None:
        """Raises `TopicsError` if this user lacks an ACL for a topic of a role that exists."""
        allowed = self.allowed(role.needed_topics)
        for topic, needed in role.needed_topics.items():
            if lacking := shortfall(needed, allowed[topic]):
                raise TopicsError(topic, f"{lacking}: {remedy(role.name)}")

    def short_retention(self, manifest: Manifest) -> str | None:
        topic = acks_topic(manifest.topology)
        config = self._configs([topic]).get(topic)
        if config is None:
            raise TopicsError.missing(topic)
        return short_retention(manifest, config)

    def publish(self, manifest: Manifest) -> None:
        """Writes the manifest into `acker.topologies`, where it replaces an earlier one."""
        self._write(manifest.topology, manifest.to_json())

    def withdraw(self, topology: str) -> None:
        """Writes tombstones for a topology into `acker.topologies`, whether it has a manifest or not."""
        self._write(topology, None)
        if topology in self.controls():
            self._write(topology, None, control_key(topology))

    def set_control(self, topology: str, control: Control) -> None:
        self._write(topology, control.to_json(), control_key(topology))

    def controls(self) -> dict[str, Control]:
        """Topology → its last control record, of topologies that have one."""
        return self._read_topologies()[1] if TOPOLOGIES_TOPIC in self.topics() else {}

    def _write(self, topology: str, value: bytes | None, key: bytes | None = None) -> None:
        failures: list[KafkaError] = []
        producer = Producer({**for_producer({**QUIET, **self._kafka}), "acks": "all"})
        producer.produce(
            TOPOLOGIES_TOPIC,
            key=key or topology.encode(),
            value=value,
            partition=0,
            on_delivery=lambda error, _message: failures.append(error) if error else None,
        )
        left = producer.flush(self.contact_s)
        if failures and failures[0].code() in REFUSED:
            raise TopicsError(TOPOLOGIES_TOPIC, f"may not be written by this user: {remedy(OPERATOR)}")
        if left or failures:
            why = failures[0].str() if failures else f"no acknowledgement within {self.contact_s:g} s"
            what = "manifest" if key is None else "control record"
            done = "withdrawn" if value is None else "published"
            raise BrokerUnreachableError(f"the {what} of {topology} could not be {done}: {why}")

    def manifest(self, topology: str) -> Manifest:
        """The manifest of a topology. Raises `UnknownTopologyError`, or `ManifestError` if it cannot be read."""
        values = self._manifest_values()
        if topology not in values:
            raise UnknownTopologyError(topology, sorted(values))
        return Manifest.from_json(values[topology])

    def manifests(self) -> dict[str, Manifest | ManifestError]:
        """All manifests by topology; an error in place of one that cannot be read."""
        manifests: dict[str, Manifest | ManifestError] = {}
        for topology, value in self._manifest_values().items():
            try:
                manifests[topology] = Manifest.from_json(value)
            except ManifestError as error:
                manifests[topology] = error
        return manifests

    def _manifest_values(self) -> dict[str, bytes]:
        if TOPOLOGIES_TOPIC not in self.topics():
            if hidden := shortfall((), self.allowed([TOPOLOGIES_TOPIC])[TOPOLOGIES_TOPIC]):
                raise TopicsError(TOPOLOGIES_TOPIC, f"{hidden}: {remedy()}")
            return {}
        return {topology: value for topology, (_, value) in self.published().items() if value is not None}

    def published(self) -> dict[str, tuple[int, bytes | None]]:
        """Offset and value of the last record of each topology in `acker.topologies`; None if it was withdrawn."""
        return self._read_topologies()[0]

    def _read_topologies(self) -> tuple[dict[str, tuple[int, bytes | None]], dict[str, Control]]:
        """Topology → the last record of its manifest, and its last control record."""
        records: dict[str, tuple[int, bytes | None]] = {}
        controls: dict[str, Control] = {}

        def take(message: Message) -> None:
            if (key := message.key()) is None:
                return
            if (topology := controlled_topology(key)) is None:
                records[key.decode(errors="replace")] = message.offset() or 0, message.value()
            elif (value := message.value()) is None:
                controls.pop(topology, None)
            else:
                with suppress(ControlRecordError):  # of a later version
                    controls[topology] = Control.of(value, message.timestamp()[1])

        kafka = {**QUIET, **self._kafka}
        with LogReader(kafka, group=self._group, role=None, receive_timeout_s=self.contact_s) as reader:
            reader.read("manifests", reader.offset_ranges([(TOPOLOGIES_TOPIC, 0)]), take)
        return records, controls

    def published_up_to(self) -> tuple[str, int] | None:
        """The id of `acker.topologies`, and the offset after its last record; None if there is no such topic."""
        topic_id = self.topic_id(TOPOLOGIES_TOPIC)
        if topic_id is None:
            return None
        partition = TopicPartition(TOPOLOGIES_TOPIC, 0)
        with self._asking():
            latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]

            def ask() -> Any:
                asked = self.admin.list_offsets({partition: latest}, request_timeout=self.contact_s)
                return answer_or_error(asked[partition], KafkaError.UNKNOWN_TOPIC_OR_PART)

            end = retrying(self.admin, ask, self.contact_s)
        return None if isinstance(end, KafkaError) else (topic_id, end.offset)

    def _configs(self, topics: list[str]) -> dict[str, dict[str, str | None] | None]:
        """The settings of topics; None for one that the broker that was asked does not know yet, or no more."""
        if not topics:
            return {}
        configs: dict[str, dict[str, str | None] | None] = {}
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        with self._asking():
            for resource, answer in self.admin.describe_configs(resources, request_timeout=self.contact_s).items():
                entries = answer_or_error(answer, KafkaError.UNKNOWN_TOPIC_OR_PART, *REFUSED)
                if not isinstance(entries, KafkaError):
                    configs[resource.name] = {key: entry.value for key, entry in entries.items()}
                elif entries.code() in REFUSED:
                    problem = f"may not be asked for its settings by this user: {remedy()}"
                    raise TopicsError(resource.name, problem)
                else:
                    configs[resource.name] = None
        return configs

    def allowed(self, topics: Iterable[str]) -> dict[str, frozenset[str] | None]:
        """The operations that this user may do with topics; None if one does not exist, or the cluster has no ACLs."""
        allowed: dict[str, frozenset[str] | None] = {}
        for name, described in self.described(topics).items():
            if isinstance(described, KafkaError):
                allowed[name] = frozenset() if described.code() in REFUSED else None
            else:
                operations = described.authorized_operations
                allowed[name] = None if operations is None else frozenset(each.name for each in operations)
        return allowed

    def _await_sound(self, specs: list[TopicSpec], created: Iterable[str]) -> None:
        """Waits until every broker that is asked describes the created topics: brokers learn of them one by one."""
        deadline = time.monotonic() + self.contact_s
        while problems := self.problems(specs):
            others = [each for each in problems if not (each.topic in created or each.is_missing)]
            if others or time.monotonic() > deadline:
                raise (others or problems)[0]
            time.sleep(_LOOK_SECONDS)


def _problems(
    spec: TopicSpec,
    existing: Mapping[str, int],
    allowed: Mapping[str, frozenset[str] | None],
    configs: Mapping[str, Mapping[str, str | None] | None],
) -> Iterator[TopicsError]:
    name = spec.name
    config = configs.get(name)
    if hidden := shortfall((), allowed.get(name)):
        yield TopicsError(name, f"{hidden}: {remedy()}")
    elif name in existing and existing[name] != spec.partitions:
        yield TopicsError(
            name,
            f"has {existing[name]} partitions, but the manifest has {spec.partitions}. A running topology keeps its "
            "partitions: set the manifest's number back, or use a new topology name",
        )
    elif config is None:
        yield TopicsError.missing(name)
    else:
        for key, wanted in spec.required.items():
            if config.get(key) != wanted:
                yield TopicsError(
                    name,
                    f"has {key}={config.get(key)}, but it must be {wanted}. Change it: kafka-configs --alter "
                    f"--entity-type topics --entity-name {name} --add-config {key}={wanted}",
                )

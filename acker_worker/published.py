"""The records of `acker.topologies`: what is published, then each change as it comes."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from kafka_clients.access import ACKER, Operation, Permission, Role, remedy
from kafka_clients.catalogue import Catalogue, KafkaSettings
from kafka_clients.client_settings import client_logger, for_consumer
from kafka_clients.errors import GONE, AccessError, BrokerUnreachableError, TopicError
from kafka_clients.librdkafka_bugs import BrokerMonitor
from tuple_tree.names import CATALOGUE_GROUP, TOPOLOGIES_TOPIC
from tuple_tree.timing import Interval

_log = logging.getLogger(__name__)
_LOOK_S: Final = 2.0  # between two attempts to open a topic that does not exist
_IDENTITY_S: Final = 10.0  # between two checks of the topic's id
_IDENTITY_CONTACT_S: Final = 2.0
_RECORDS: Final = 500
_FIXED: Final[dict[str, str | int | float | bool]] = {
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "group.id": CATALOGUE_GROUP,  # not joined, but librdkafka requires one
}
_READER: Final = Role(
    ACKER, "acker workers of all topologies", (Permission("topic", TOPOLOGIES_TOPIC, (Operation.READ,)),)
)


class Published(NamedTuple):
    """A record of `acker.topologies`: the manifest's JSON, or None if the topology was withdrawn."""

    topology: str
    value: bytes | None


class PublishedTopologies:
    """Follows `acker.topologies`; if it is deleted, no topology is withdrawn, and it is read anew once it is back."""

    def __init__(self, kafka: KafkaSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._kafka = kafka
        self._catalogue = Catalogue(kafka)
        self._settings: dict[str, Any] = {**for_consumer(kafka), **_FIXED, "logger": client_logger("acker_worker")}
        self._consumer: Consumer | None = None
        self._monitor = BrokerMonitor()
        self._topic_id: str | None = None
        self._looks = Interval(_LOOK_S, clock)
        self._identities = Interval(_IDENTITY_S, clock)
        self._first: dict[str, Published] | None = {}

    def open(self) -> None:
        """Begins to read, if the topic exists. Raises `ClusterError`."""
        self._catalogue.check_access(_READER)
        self._topic_id = self._catalogue.topic_id(TOPOLOGIES_TOPIC)
        if self._topic_id is None:
            return
        self._monitor = BrokerMonitor()
        self._consumer = Consumer({**self._settings, **self._monitor.settings})
        self._consumer.assign([TopicPartition(TOPOLOGIES_TOPIC, 0, 0)])

    def poll(self, timeout_s: float) -> list[Published]:
        """The changes that came, in order; at first, and all at once, the latest record of each topology.

        Waits for the first change for `timeout_s` seconds. Raises as `open`, except that it waits for brokers.
        """
        if self._consumer is not None and self._monitor.lost:
            _log.warning("%s is read anew: librdkafka had lost all brokers", TOPOLOGIES_TOPIC)
            self.close()
        if self._consumer is not None and self._identities.due():
            self._check_identity()
        if self._consumer is None:
            self._open_again(timeout_s)
            return []
        first = self._consumer.poll(timeout_s)
        messages = [] if first is None else [first, *self._consumer.consume(_RECORDS, 0)]
        return [change for message in messages for change in self._read(message)]

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _check_identity(self) -> None:
        """Begins again if the topic was deleted: one of the same name has other records at the same offsets."""
        try:
            topic_id = self._catalogue.topic_id(TOPOLOGIES_TOPIC, _IDENTITY_CONTACT_S)
        except BrokerUnreachableError as error:
            _log.warning("%s: %s", TOPOLOGIES_TOPIC, error)
            # It may be this client alone that has lost its brokers.
            self._catalogue = Catalogue(self._kafka)
            return
        if topic_id != self._topic_id:
            _log.warning("%s was deleted: what is served goes on, and what is published from now on", TOPOLOGIES_TOPIC)
            self.close()

    def _open_again(self, timeout_s: float) -> None:
        if not self._looks.due():
            threading.Event().wait(timeout_s)
            return
        try:
            self.open()
        except BrokerUnreachableError as error:
            _log.warning("%s is not followed: %s", TOPOLOGIES_TOPIC, error)
            self._catalogue = Catalogue(self._kafka)

    def _read(self, message: Message) -> list[Published]:
        error, key = message.error(), message.key()
        if error is not None:
            return self._on_error(error)
        if key is None:
            return []  # brokers reject such records in a compacted topic
        change = Published(key.decode(errors="replace"), message.value())
        if self._first is None:
            return [change]
        self._first[change.topology] = change
        return []

    def _on_error(self, error: KafkaError) -> list[Published]:
        if error.code() == KafkaError._PARTITION_EOF:
            first, self._first = self._first, None
            return [] if first is None else list(first.values())
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise TopicError(TOPOLOGIES_TOPIC, f"may not be read by this user: {remedy(ACKER)}")
        if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            raise AccessError(
                f"group {CATALOGUE_GROUP} may not be used by this user, and a worker of all topologies reads "
                f"{TOPOLOGIES_TOPIC} in its name: allow Read for that group, or name one with --topology"
            )
        if error.code() in GONE:
            self.close()
        _log.warning("%s: %s", TOPOLOGIES_TOPIC, error.str())
        return []

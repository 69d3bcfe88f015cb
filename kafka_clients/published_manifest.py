"""The published manifest of a topology, read by its processes when they need it."""

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaException

from kafka_clients.errors import BrokerError
from kafka_clients.repeated_lines import get_logger
from kafka_clients.topic_tail import SMALL, TopicTail
from tuple_tree.errors import ManifestError
from tuple_tree.manifest import Manifest
from tuple_tree.names import TOPOLOGIES_TOPIC, component_group

_PLACE: Final = (TOPOLOGIES_TOPIC, 0)
logger = get_logger(__name__)


class PublishedManifest(TopicTail):
    """Reads the manifest of a topology in `acker.topologies`; for one thread. It joins no group, and never waits.

    Args:
        component: that of this process, in whose group's name it reads.

    Attributes:
        manifest: what was published last; None if it cannot be read, or is not published.
        is_read: whether the topic was read to an end that it had after the last `ask`.
    """

    def __init__(self, topology: str, component: str, kafka: Mapping[str, Any]) -> None:
        super().__init__({**kafka, **SMALL}, group=component_group(topology, component), role=component)
        self.manifest: Manifest | None = None
        self.is_read = True
        self._key = topology.encode()
        self._component = component
        self._value: bytes | None = None

    def ask(self) -> None:
        """Begins to read the topic, from its beginning: it is compacted and small."""
        self._value, self.is_read = None, False
        self.read_from({_PLACE: 0})

    def look(self) -> None:
        """Reads what has come; a topic that cannot be read counts as one without this topology."""
        if self.is_read:
            return
        try:
            for message in self.poll():
                if message.key() == self._key:
                    self._value = message.value()
        except (BrokerError, KafkaException) as error:
            logger.warning("%s cannot read the published manifest: %s", self._component, error)
            self._end(None)
            return
        if self.at_end:
            self._end(self._value)

    def _end(self, value: bytes | None) -> None:
        self.is_read = True
        try:
            self.manifest = None if value is None else Manifest.from_json(value)
        except ManifestError as error:
            logger.warning("%s cannot read the published manifest: %s", self._component, error)
            self.manifest = None
        self.read_from({})

"""The published manifest of a topology, read by its processes when they need it."""

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaException

from kafka_clients.errors import BrokerError
from kafka_clients.librdkafka_bugs import HANG_SECONDS, BrokerMonitor, bounded
from kafka_clients.log_reader import LogReader
from kafka_clients.repeated_lines import get_logger
from tuple_tree.errors import ManifestError
from tuple_tree.manifest import Manifest
from tuple_tree.names import TOPOLOGIES_TOPIC, component_group

_PLACE: Final = (TOPOLOGIES_TOPIC, 0)
logger = get_logger(__name__)


class PublishedManifest:
    """Reads the manifest of a topology in `acker.topologies`; for one thread. It joins no group, and never waits.

    Args:
        topology: its name.
        component: that of this process, in whose group's name it reads.
        kafka: librdkafka properties.

    Attributes:
        manifest: what was published last; None if it cannot be read, or is not published.
        is_read: whether the topic was read to an end that it had after the last `ask`.
    """

    def __init__(self, topology: str, component: str, kafka: Mapping[str, Any]) -> None:
        self.manifest: Manifest | None = None
        self.is_read = True
        self._key = topology.encode()
        self._component = component
        self._kafka = {**kafka, "queued.max.messages.kbytes": 1_024, "queued.min.messages": 100}
        self._monitor = BrokerMonitor()
        self._group = component_group(topology, component)
        self._reader: LogReader | None = None
        self._value: bytes | None = None

    def ask(self) -> None:
        """Begins to read the topic, from its beginning: it is compacted and small."""
        if self._reader is None:
            self._monitor = BrokerMonitor()
            settings = {**self._kafka, **self._monitor.settings}
            self._reader = LogReader(settings, group=self._group, role=self._component)
        self._value, self.is_read = None, False
        self._reader.assign({_PLACE: 0})

    def look(self) -> None:
        """Reads what has come; a topic that cannot be read counts as one without this topology."""
        if self.is_read or self._reader is None:
            return
        if self._monitor.lost:
            self.close()
            self.ask()
        try:
            for message in self._reader.poll(0):
                if message.key() == self._key:
                    self._value = message.value()
        except (BrokerError, KafkaException) as error:
            logger.warning("%s cannot read the published manifest: %s", self._component, error)
            self._end(None)
            return
        if _PLACE in self._reader.ended:
            self._end(self._value)

    def close(self) -> None:
        """Ends its consumer, if it has one."""
        if self._reader is not None:
            with bounded(HANG_SECONDS, f"close() of the consumer of {TOPOLOGIES_TOPIC}"):
                self._reader.close()
            self._reader = None

    def _end(self, value: bytes | None) -> None:
        self.is_read = True
        try:
            self.manifest = None if value is None else Manifest.from_json(value)
        except ManifestError as error:
            logger.warning("%s cannot read the published manifest: %s", self._component, error)
            self.manifest = None
        if self._reader is not None:
            self._reader.assign({})

"""Reads the statistics that processes of a topology publish, from now on, for a process that works by them.

Nothing here waits or raises: without statistics the process works as well.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

from kafka_clients.access import remedy
from kafka_clients.client_settings import for_consumer, new_client
from kafka_clients.errors import REFUSED
from kafka_clients.librdkafka_bugs import HANG_SECONDS, BrokerMonitor, bounded
from kafka_clients.repeated_lines import get_logger
from tuple_tree.errors import StatsRecordError
from tuple_tree.names import component_group, stats_topic
from tuple_tree.process_stats import StatsRecord

_MOST_RECORDS: Final = 1_000  # of a read
_SETTINGS: Final[dict[str, Any]] = {
    "auto.offset.reset": "latest",
    "enable.auto.commit": False,
    "queued.max.messages.kbytes": 1_024,
    # Errors of brokers are logged by the clients that need them.
    "log_level": 0,
}
logger = get_logger(__name__)


class StatsReader:
    """Reads the records of processes of some components; for one thread. It joins no group.

    Args:
        topology: its name.
        component: that of this process, in whose group's name it reads.
        components: those whose processes are of interest.
        kafka: librdkafka properties.
    """

    def __init__(self, topology: str, component: str, components: Collection[str], kafka: Mapping[str, Any]) -> None:
        self._topic = stats_topic(topology)
        self._component = component
        self._keys = tuple(f"component/{name}/".encode() for name in components)
        group = {"group.id": component_group(topology, component)}
        self._settings = {**for_consumer(kafka), **_SETTINGS, **group}
        self._has_warned = False
        self._open()

    def read(self) -> list[StatsRecord]:
        """The records that are available now."""
        if self._monitor.lost:
            self.close()
            self._open()
        try:
            messages = self._consumer.consume(_MOST_RECORDS, 0)
        except KafkaException as error:
            self._warn(error.args[0])
            return []
        records = []
        for message in messages:
            if (problem := message.error()) is not None:
                self._warn(problem)
            elif (message.key() or b"").startswith(self._keys):
                with suppress(StatsRecordError):  # `acker top` shows that some are of another version
                    records.append(StatsRecord.of(message.key(), message.value(), message.timestamp()[1]))
        return records

    def close(self) -> None:
        with bounded(HANG_SECONDS, f"close() of the consumer of {self._topic}"):
            self._consumer.close()

    def _open(self) -> None:
        self._monitor = BrokerMonitor()
        self._consumer = new_client(Consumer, {**self._settings, **self._monitor.settings})
        self._consumer.assign([TopicPartition(self._topic, 0, OFFSET_END)])

    def _warn(self, error: KafkaError) -> None:
        if not self._has_warned:
            self._has_warned = True
            what_to_do = f"; {remedy(self._component)}" if error.code() in REFUSED else ""
            logger.warning(
                "%s is not read (%s): shuffle groupings of %s share evenly, whatever the load of the tasks is%s",
                *(self._topic, error.str(), self._component, what_to_do),
            )

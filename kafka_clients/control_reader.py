"""Follows the requested state of a topology, by its control record in `acker.topologies`."""

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaException, Message

from kafka_clients.access import remedy
from kafka_clients.errors import BrokerError
from kafka_clients.repeated_lines import get_logger
from kafka_clients.topic_tail import SMALL, TopicTail
from tuple_tree.control import Control, ControlState, control_key
from tuple_tree.errors import ControlRecordError
from tuple_tree.names import TOPOLOGIES_TOPIC, component_group

LOOK_SECONDS: Final = 0.25  # between two looks
_PLACE: Final = (TOPOLOGIES_TOPIC, 0)
logger = get_logger(__name__)


class ControlReader(TopicTail):
    """Reads the control record of a topology, for one thread; it joins no group, and never waits.

    A process that may not read `acker.topologies` runs as if there were no record, and logs that.

    Args:
        component: that of this process, in whose group's name it reads.

    Attributes:
        control: the last record; None until the topic was read to its end, so that a spout of a paused topology emits
            nothing after a restart.
    """

    def __init__(self, topology: str, component: str, kafka: Mapping[str, Any]) -> None:
        super().__init__({**kafka, **SMALL}, group=component_group(topology, component), role=component)
        self.control: Control | None = None
        self._component = component
        self._key = control_key(topology)
        self._last = Control()
        self._look_at = 0.0
        self.read_from({_PLACE: 0})

    @property
    def state(self) -> ControlState | None:
        """The requested state; None while it is not known."""
        return None if self.control is None else self.control.state

    def look(self, now: float) -> None:
        """Reads what has come since the last look, if it is time to; `now` are seconds of a monotonic clock."""
        if now < self._look_at:
            return
        # Until it is known, a spout waits for it.
        self._look_at = 0.0 if self.control is None else now + LOOK_SECONDS
        try:
            messages = self.poll()
        except (BrokerError, KafkaException) as error:
            self._run_without(error)
            return
        for message in messages:
            if message.key() == self._key:
                self._take(message)
        if self.at_end:
            self.control = self._last

    def _take(self, message: Message) -> None:
        try:
            self._last = Control.of(message.value(), message.timestamp()[1])
        except ControlRecordError as error:
            logger.error("offset %s of %s is ignored: %s", message.offset(), TOPOLOGIES_TOPIC, error)

    def _run_without(self, error: Exception) -> None:
        if self.control is None:
            self.control = self._last
            logger.warning(
                "%s cannot be paused or drained, because topic %s cannot be read (%s); %s, and restart it",
                *(self._component, TOPOLOGIES_TOPIC, error, remedy(self._component)),
            )

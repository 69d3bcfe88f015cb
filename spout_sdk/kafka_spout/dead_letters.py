"""Messages that become dead letters, and are done once these were delivered."""

import logging
from collections.abc import Callable
from typing import Any

from spout_sdk.emitting.dead_letters import send_dead_letter
from spout_sdk.errors import DeliveryError
from spout_sdk.records import Record, Sink
from spout_sdk.statistics.counters import Counters
from tuple_tree.errors import WireError

logger = logging.getLogger("spout_sdk.kafka_spout")


class SourceDeadLetters:
    """Sends dead letters of a task."""

    def __init__(self, topic: str, by: str, sink: Sink, counters: Counters, done: Callable[[int], None]) -> None:
        self._topic = topic
        self._by = by
        self._sink = sink
        self._counters = counters
        self._done = done
        self.failure: DeliveryError | None = None

    def send(self, key: int, record: Record, error: WireError) -> None:
        """Makes a dead letter of a message, and logs where it lies and why."""
        self._counters.dead_letters += 1
        where = f"{record.topic()}[{record.partition()}] offset {record.offset()}"
        logger.warning("%s: %s becomes a dead letter: %s", self._by, where, error)

        def delivered(failure: Any, _message: Any) -> None:
            if failure is None:
                self._done(key)
            else:
                self.failure = DeliveryError("a dead letter", self._topic, 0, failure)

        send_dead_letter(self._sink, self._topic, record, error, self._by, delivered)

"""Follows topics from chosen offsets on, for a process or a client that works by their records."""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, Final

from confluent_kafka import Message

from kafka_clients.librdkafka_bugs import HANG_SECONDS, BrokerMonitor, bounded
from kafka_clients.log_reader import LogReader, Place, place_of
from kafka_clients.repeated_lines import get_logger

SMALL: Final[dict[str, Any]] = {"queued.max.messages.kbytes": 1_024, "queued.min.messages": 100}
"""Properties of a consumer of small topics."""
logger = get_logger(__name__)


class TopicTail:
    """Reads partitions, for one thread; it joins no group. When its client has lost all brokers, it takes another one.

    Args:
        kafka: librdkafka properties.
        reader: arguments of its `LogReader`.
        may_exit: whether this process ends if the client hangs.

    Attributes:
        positions: partition → the next offset.
    """

    def __init__(self, kafka: Mapping[str, Any], *, may_exit: bool = True, **reader: Any) -> None:
        self._kafka, self._arguments, self._may_exit = kafka, reader, may_exit
        self._reader: LogReader | None = None
        self.positions: dict[Place, int] = {}

    @property
    def at_end(self) -> bool:
        return self._reader is not None and self._reader.ended.keys() >= self.positions.keys()

    @property
    def reader(self) -> LogReader:
        """The reader, created at the first use."""
        if self._reader is None:
            self._monitor = BrokerMonitor()
            self._reader = LogReader({**self._kafka, **self._monitor.settings}, **self._arguments)
        return self._reader

    def read_from(self, starts: Mapping[Place, int]) -> None:
        self.positions = {**starts}
        self.reader.assign(starts)

    def poll(self, seconds: float = 0.0) -> list[Message]:
        """The next records; waits `seconds` for the first. Raises as `LogReader.poll`."""
        if self._reader is not None and self._monitor.lost:
            logger.warning("a client has lost all brokers, and another one reads %s", self._topics())
            self.close()
            self.read_from(self.positions)
        messages = self.reader.poll(seconds)
        for message in messages:
            self.positions[place_of(message)] = (message.offset() or 0) + 1
        return messages

    def close(self) -> None:
        if self._reader is not None:
            what = f"close() of the consumer of {self._topics()}"
            with bounded(HANG_SECONDS, what) if self._may_exit else nullcontext():
                self._reader.close()
            self._reader = None

    def _topics(self) -> str:
        return ", ".join(sorted({topic for topic, _ in self.positions}))

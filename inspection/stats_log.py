"""The statistics of a topology's processes, read from `{topology}.stats`."""

import logging
import time
from collections.abc import Iterator
from typing import Final

from confluent_kafka import Message

from kafka_clients.catalogue import CONTACT_S, Catalogue, KafkaSettings
from kafka_clients.errors import GONE, BrokerUnreachableError, TopicError
from kafka_clients.log_reader import LogReader
from tuple_tree.errors import StatsRecordError
from tuple_tree.names import stats_topic
from tuple_tree.process_stats import StatsRecord

_log = logging.getLogger(__name__)
_POLL_S: Final = 0.1


class StatsLog:
    """The topic `{topology}.stats`; not for several threads. `unreadable` counts records in another format."""

    def __init__(self, kafka: KafkaSettings, topology: str) -> None:
        self._kafka = dict(kafka)
        self._topology = topology
        self._topic = stats_topic(topology)
        self._reader: LogReader | None = None
        self.unreadable = 0

    @property
    def caught_up(self) -> bool:
        """Whether everything was read that the topic held at some moment since `open`."""
        return self._reader is not None and bool(self._reader.ended)

    def open(self, back_s: float) -> None:
        """Begins to read at the records of `back_s` seconds ago; raises a `ClusterError` if that is not possible."""
        if self._topic not in Catalogue(self._kafka).topics():
            raise TopicError(
                self._topic,
                f"does not exist, or this user has no DESCRIBE ACL for it, so there are no "
                f"statistics of {self._topology}. Create it with acker topics create MODULE:TOPOLOGY; running "
                "processes find it by themselves",
            )
        place = (self._topic, 0)
        reader = self._reader = LogReader(self._kafka)
        try:
            since_ms = int((time.time() - back_s) * 1000)
            reader.assign({place: reader.stretches([place], since_ms)[place].start})
        except BaseException:
            self.close()
            raise

    def poll(self, timeout_s: float) -> list[StatsRecord]:
        """The records since the last call, in order; raises a `TopicError` or `AccessError` if they may not be read."""
        if self._reader is None:
            raise RuntimeError("the log is not open")
        messages = self._reader.poll(timeout_s, ignoring=GONE)
        return [record for message in messages if (record := self._decoded(message)) is not None]

    def catch_up(self) -> Iterator[StatsRecord]:
        """Reads to the end; raises `BrokerUnreachableError` if no record comes for `CONTACT_S`."""
        deadline = time.monotonic() + CONTACT_S
        while not self.caught_up:
            if records := self.poll(_POLL_S):
                yield from records
                deadline = time.monotonic() + CONTACT_S
            elif time.monotonic() > deadline:
                raise BrokerUnreachableError(f"{self._topic} could not be read for {CONTACT_S:g} s: check the brokers")

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _decoded(self, message: Message) -> StatsRecord | None:
        try:
            return StatsRecord.of(message.key(), message.value(), message.timestamp()[1])
        except StatsRecordError as error:
            if not self.unreadable:
                _log.warning("%s offset %s is skipped: %s", self._topic, message.offset(), error)
            self.unreadable += 1
            return None

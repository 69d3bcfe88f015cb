"""Reads what the processes of a topology say about themselves, from some time ago on."""

import logging
import time
from collections.abc import Iterator
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from kafka_clients.catalogue import CONTACT_S, Catalogue, KafkaSettings
from kafka_clients.client_logs import client_logger
from kafka_clients.client_settings import for_consumer
from kafka_clients.errors import AccessError, BrokerUnreachableError, TopicError
from tuple_tree.errors import StatsRecordError
from tuple_tree.names import CATALOGUE_GROUP, stats_topic
from tuple_tree.process_stats import StatsRecord

_log = logging.getLogger(__name__)

_RECORDS: Final = 1_000
_POLL_S: Final = 0.1
_FIXED: Final[dict[str, Any]] = {
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 100,
    # Not joined, but librdkafka wants a name.
    "group.id": CATALOGUE_GROUP,
    # What goes wrong is raised, or passes.
    "log_level": 0,
}
_REFUSED: Final = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED)


class StatsLog:
    """The topic `{topology}.stats`; not for several threads.

    Args:
        kafka: librdkafka properties.
        topology: whose.

    Attributes:
        unreadable: records that are none of ours; the first of them is logged.
        caught_up: whether everything was read that was there at some moment since `open`.
    """

    def __init__(self, kafka: KafkaSettings, topology: str) -> None:
        self._kafka = dict(kafka)
        self._topology = topology
        self._topic = stats_topic(topology)
        self._consumer: Consumer | None = None
        self.unreadable = 0
        self.caught_up = False

    def open(self, back_s: float) -> None:
        """Begins to read.

        Args:
            back_s: at what was said so many seconds ago.

        Raises:
            TopicError: if the topic does not exist, or may not be read by this user.
            AccessError: if this user may not use the group in whose name it is read.
            BrokerUnreachableError: if no broker answers in time.
        """
        if self._topic not in Catalogue(self._kafka).topics():
            raise TopicError(
                self._topic,
                f"does not exist, or this user has no DESCRIBE ACL for it, so there are no "
                f"statistics of {self._topology}. Create it with acker topics create MODULE:TOPOLOGY; running "
                "processes find it by themselves",
            )
        consumer = self._consumer = Consumer(
            {**for_consumer(self._kafka), **_FIXED, "logger": client_logger("inspection")}
        )
        since = int((time.time() - back_s) * 1000)
        try:
            consumer.assign(consumer.offsets_for_times([TopicPartition(self._topic, 0, since)], timeout=CONTACT_S))
        except KafkaException as error:
            self.close()
            raise self._problem(error.args[0]) from error

    def poll(self, timeout_s: float) -> list[StatsRecord]:
        """What was said since the last call, in order.

        Args:
            timeout_s: how long to wait for something, in seconds.

        Raises:
            TopicError: if the topic may not be read by this user.
            AccessError: as above.
        """
        if self._consumer is None:
            raise RuntimeError("the log is not open")
        first = self._consumer.poll(timeout_s)
        messages = [] if first is None else [first, *self._consumer.consume(_RECORDS, 0)]
        return [record for message in messages if (record := self._read(message)) is not None]

    def catch_up(self, seconds: float = CONTACT_S) -> Iterator[StatsRecord]:
        """Everything that was said up to now, as it comes.

        Args:
            seconds: how long nothing may come.

        Raises:
            BrokerUnreachableError: if nothing comes for longer, and the end is not reached.
            TopicError, AccessError: as above.
        """
        heard_at = time.monotonic()
        while not self.caught_up:
            records = self.poll(_POLL_S)
            yield from records
            now = time.monotonic()
            if records:
                heard_at = now
            elif now - heard_at > seconds:
                raise BrokerUnreachableError(f"{self._topic} could not be read for {seconds:g} s: check the brokers")

    def close(self) -> None:
        """Stops reading."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _read(self, message: Message) -> StatsRecord | None:
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                self.caught_up = True
            elif error.code() in _REFUSED:
                raise self._problem(error)
            return None
        key, value = message.key(), message.value()
        try:
            return StatsRecord.of(_bytes(key), _bytes(value), message.timestamp()[1])
        except StatsRecordError as problem:
            if not self.unreadable:
                _log.warning("%s offset %s is skipped: %s", self._topic, message.offset(), problem)
            self.unreadable += 1
            return None

    def _problem(self, error: KafkaError) -> Exception:
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return TopicError(self._topic, "may not be read by this user: allow Read for it")
        if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            return AccessError(
                f"group {CATALOGUE_GROUP} may not be used by this user, and {self._topic} is read in its name: allow "
                "Read for that group"
            )
        return BrokerUnreachableError(f"{self._topic} cannot be read ({error.str()}): check the brokers")


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value

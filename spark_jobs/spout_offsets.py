"""What Kafka keeps for a Spark spout: where its source begins and ends, its committed offsets, and its notices.

The acked prefix is the offset of the spout's consumer group, `{topology}.{spout}`, on the source topic. The commit's
metadata holds the mark: the offset from which the notices have to be read to learn the outcomes of the rest. An
operator who resets the group's offsets removes it, and so asks for a second delivery.
"""

import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, Message, TopicPartition

from kafka_clients.client_settings import for_consumer
from kafka_clients.librdkafka_bugs import LOST, BrokerMonitor
from kafka_clients.log_reader import watermarks
from spark_jobs.errors import SparkJobError, TopicsRefusedError
from tuple_tree.positions import MAX_PARTITIONS
from tuple_tree.source_positions import Prefix

logger = logging.getLogger("spark_jobs.spout")

_SECONDS: Final = 10.0
_VERSION: Final = "1"
_MARK: Final = "notices="

_REFRESH_SECONDS: Final = 3_600.0
"""A broker forgets an offset of a group without members 7 days after its last commit unless set otherwise
(`offsets.retention.minutes`): so those of a quiet partition are committed again."""


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets of a source partition, from `start` up to and without `end`."""

    partition: int
    start: int
    end: int


class SpoutOffsets:
    """A consumer of the spout's notices that commits for its source; for one thread at a time.

    Notices before the offset `mark` were read.
    """

    def __init__(self, kafka: Mapping[str, Any], group: str, source: str, notices: tuple[str, int]) -> None:
        self._source = source
        self._notices = notices
        self._servers = kafka.get("bootstrap.servers")
        self._monitor = BrokerMonitor()
        self._consumer = Consumer(
            {
                **self._monitor.settings,
                "log_level": 2,
                "fetch.wait.max.ms": 50,
                "fetch.queue.backoff.ms": 50,
                **for_consumer(kafka),
                "group.id": group,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "earliest",
            }
        )
        self.mark = 0
        self._committed: dict[int, Prefix] = {}
        self._refresh_at = time.monotonic() + _REFRESH_SECONDS

    def bounds(self) -> list[Range]:
        """First and end offset of each partition of the source."""
        try:
            topic = self._consumer.list_topics(self._source, timeout=_SECONDS).topics[self._source]
            if topic.error is not None or not topic.partitions:
                raise TopicsRefusedError(f"source topic {self._source} does not exist: create it, or name another")
            if len(topic.partitions) > MAX_PARTITIONS:
                raise TopicsRefusedError(
                    f"source topic {self._source} has {len(topic.partitions)} partitions, and positional roots tell "
                    f"{MAX_PARTITIONS} apart: copy it to a topic with fewer"
                )
            return [Range(number, *self._watermarks(self._source, number)) for number in sorted(topic.partitions)]
        except KafkaException as error:
            raise TopicsRefusedError(
                f"source topic {self._source} at {self._servers} cannot be read: {error.args[0]}; check the settings"
            ) from error

    def committed(self, partitions: Iterable[int]) -> dict[int, Prefix | None]:
        """What the group has committed; with a mark of -1 where an operator has reset it."""
        asked = [TopicPartition(self._source, number) for number in partitions]
        prefixes: dict[int, Prefix | None] = {}
        for each in self._consumer.committed(asked, timeout=_SECONDS):
            if each.error is not None:
                raise KafkaException(each.error)
            prefixes[each.partition] = None
            if each.offset != OFFSET_INVALID:
                prefix = Prefix(each.partition, each.offset, mark_of(each))
                self._committed[each.partition] = prefixes[each.partition] = prefix
        return prefixes

    def commit(self, prefixes: Iterable[Prefix]) -> None:
        """Commits what has changed, and now and then what has not.

        A failure is only logged: the next commit covers it, and until then a restart just delivers more twice.
        """
        changed = [prefix for prefix in prefixes if self._committed.get(prefix.partition) != prefix]
        now = time.monotonic()
        if now >= self._refresh_at:
            changed = [*{**self._committed, **{prefix.partition: prefix for prefix in changed}}.values()]
        if not changed:
            return
        try:
            commit(
                self._consumer,
                [
                    TopicPartition(self._source, each.partition, each.offset, f"{_VERSION}:{_MARK}{each.mark}")
                    for each in changed
                ],
            )
        except KafkaException as error:
            logger.warning("the offsets of %s could not be committed: %s", self._source, error)
            return
        self._committed.update({prefix.partition: prefix for prefix in changed})
        if now >= self._refresh_at:
            self._refresh_at = now + _REFRESH_SECONDS

    def notices_end(self) -> int:
        return self._watermarks(*self._notices)[1]

    def read_from(self, mark: int) -> None:
        """Starts reading the notices at an offset, or at the first one that is left."""
        self.mark = max(mark, self._watermarks(*self._notices)[0])
        self._consumer.assign([TopicPartition(*self._notices, self.mark)])

    def poll(self, seconds: float, most: int = 500) -> list[Message]:
        """Reads notices; `mark` moves behind them."""
        notices = []
        for message in self._consumer.consume(most, seconds):
            error = message.error()
            if error is not None:
                if error.fatal():
                    raise KafkaException(error)
                logger.warning("reading the notices: %s", error)
                continue
            self.mark = (message.offset() or 0) + 1
            notices.append(message)
        if self._monitor.lost:
            raise KafkaException(KafkaError(KafkaError._FATAL, f"reading the notices cannot go on: {LOST}", fatal=True))
        return notices

    def close(self) -> None:
        self._consumer.close()

    def _watermarks(self, topic: str, partition: int) -> tuple[int, int]:
        return watermarks(self._consumer, TopicPartition(topic, partition), _SECONDS)


def commit(consumer: Consumer, offsets: list[TopicPartition]) -> None:
    """Commits offsets, and raises `KafkaException` if one of them cannot be committed."""
    for result in consumer.commit(offsets=offsets, asynchronous=False) or []:
        if result.error is not None:
            raise KafkaException(result.error)


def mark_of(committed: TopicPartition) -> int:
    """The mark in a commit's metadata; -1 if the commit is not one of a spout in Spark."""
    version, _, mark = str(committed.metadata or "").partition(":")
    if not mark.startswith(_MARK):
        return -1
    if version != _VERSION:
        raise SparkJobError(
            f"the commit of {committed.topic}[{committed.partition}] has metadata of version {version}, and this spout "
            f"reads version {_VERSION}: run the version that committed it, or a later one"
        )
    digits = mark.removeprefix(_MARK)
    return int(digits) if digits.isdigit() else -1

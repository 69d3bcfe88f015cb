"""The offsets of a Spark spout in Kafka: how far its notices are read, and which messages of its source are done.

The acked prefix is the offset of the spout's consumer group, `{topology}.{spout}`, on the source topic. The commit's
metadata has what is done past it, and the mark: the offset from which the notices have to be read to learn the
outcomes of the rest. An operator who resets the group's offsets removes both, and so asks for a second delivery.

While no micro-batch may begin, the metadata also has the offset from which on no message was emitted. A commit without
it replaces that before the next micro-batch begins: then only a driver knows what is open, and not the commit.
"""

import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, Message, TopicPartition

from kafka_clients.client_settings import for_consumer
from kafka_clients.librdkafka_bugs import LOST, BrokerMonitor
from kafka_clients.log_reader import watermarks
from kafka_clients.repeated_lines import get_logger
from spark_jobs.errors import SparkJobError, TopicsRefusedError
from spark_jobs.message_table import Prefix
from tuple_tree.commit_metadata import (
    DONE,
    EMITTED,
    LARGEST_METADATA,
    NOTICES,
    REFRESH_SECONDS,
    Commit,
    read_commit_metadata,
)
from tuple_tree.done_sets import DoneSet
from tuple_tree.errors import CommitError
from tuple_tree.positions import MAX_PARTITIONS

logger = get_logger("spark_jobs.spout")

NO_MARK: Final = -1
"""The mark of an offset that was not committed by a spout in Spark."""

_SECONDS: Final = 10.0
_POLL_NOTICES: Final = 500


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
        self._made: dict[int, tuple[Prefix, int | None]] = {}  # the commits of this process
        self._room = LARGEST_METADATA
        self._refresh_at = time.monotonic() + REFRESH_SECONDS

    def bounds(self) -> dict[int, range]:
        """The offsets of each partition of the source."""
        try:
            topic = self._consumer.list_topics(self._source, timeout=_SECONDS).topics[self._source]
            if topic.error is not None or not topic.partitions:
                raise TopicsRefusedError(f"source topic {self._source} does not exist: create it, or name another")
            if len(topic.partitions) > MAX_PARTITIONS:
                raise TopicsRefusedError(
                    f"source topic {self._source} has {len(topic.partitions)} partitions, and positional roots can "
                    f"have {MAX_PARTITIONS}: copy it to a topic with fewer"
                )
            return {number: range(*self._watermarks(self._source, number)) for number in sorted(topic.partitions)}
        except KafkaException as error:
            raise TopicsRefusedError(
                f"source topic {self._source} at {self._servers} cannot be read: {error.args[0]}; check the settings"
            ) from error

    def committed(self, partitions: Iterable[int]) -> dict[int, Prefix]:
        """Returns the committed prefix of each partition; its mark is -1 where an operator has reset the offset."""
        asked = [TopicPartition(self._source, number) for number in partitions]
        for each in _without_error(self._consumer.committed(asked, timeout=_SECONDS)):
            if each.offset != OFFSET_INVALID:
                self._committed[each.partition] = prefix_of(each)
        return self._committed.copy()

    def commit(self, prefixes: Mapping[int, Prefix], emitted_to: Mapping[int, int] | None = None) -> bool:
        """Commits what has changed, and now and then what has not.

        A failure is logged, and returns False: the next commit covers it, and until then a restart just delivers more
        twice. `emitted_to` has the offsets after the last messages that were emitted; None while more may be.
        """
        now, every = time.monotonic(), {**self._committed, **prefixes}
        is_refresh = now >= self._refresh_at
        made = {
            number: (each, None if emitted_to is None else max(emitted_to.get(number, 0), each.offset))
            for number, each in every.items()
        }
        offsets = [
            TopicPartition(self._source, number, each[0].offset, self._metadata(*each))
            for number, each in made.items()
            if is_refresh or self._made.get(number) != each
        ]
        if not offsets:
            return True
        try:
            _without_error(self._consumer.commit(offsets=offsets, asynchronous=False) or [])
        except KafkaException as error:
            logger.warning("the offsets of %s could not be committed: %s", self._source, error)
            if error.args[0].code() == KafkaError.OFFSET_METADATA_TOO_LARGE:
                self._room = min(self._room, max(len(each.metadata or "") for each in offsets)) // 2
                text = "less of what is done is committed; set offset.metadata.max.bytes of the brokers to %d"
                logger.error(text, LARGEST_METADATA)
            return False
        self._committed, self._made = every, made
        if is_refresh:
            self._refresh_at = now + REFRESH_SECONDS
        return True

    def _metadata(self, of: Prefix, emitted_to: int | None) -> str:
        texts = {NOTICES: str(of.mark), EMITTED: "" if emitted_to is None else str(emitted_to)}
        return Commit.of(DoneSet(of.offset, of.runs), texts, self._room).metadata

    def notices_end(self) -> int:
        return self._watermarks(*self._notices)[1]

    def read_from(self, mark: int) -> None:
        """Starts reading the notices at an offset, or at the first one that is left."""
        self.mark = max(mark, self._watermarks(*self._notices)[0])
        self._consumer.assign([TopicPartition(*self._notices, self.mark)])

    def poll(self, seconds: float) -> list[Message]:
        """Reads notices; `mark` moves past them."""
        notices = []
        for message in self._consumer.consume(_POLL_NOTICES, seconds):
            error = message.error()
            if error is not None:
                if error.fatal():
                    raise KafkaException(error)
                logger.warning("reading the notices: %s", error)
                continue
            self.mark = (message.offset() or 0) + 1
            notices.append(message)
        if self._monitor.lost:
            raise KafkaException(
                KafkaError(KafkaError._FATAL, f"reading the notices cannot continue: {LOST}", fatal=True)
            )
        return notices

    def close(self) -> None:
        self._consumer.close()

    def _watermarks(self, topic: str, partition: int) -> tuple[int, int]:
        return watermarks(self._consumer, TopicPartition(topic, partition), _SECONDS)


def _without_error(results: list[TopicPartition]) -> list[TopicPartition]:
    for each in results:
        if each.error is not None:
            raise KafkaException(each.error)
    return results


def prefix_of(committed: TopicPartition) -> Prefix:
    """The contents of a commit, with a mark of -1 if it is not one of a spout in Spark."""
    try:
        texts = read_commit_metadata(committed.offset, committed.metadata) or {}
        done = DoneSet.read(committed.offset, texts.get(DONE, ""))
    except CommitError as error:
        raise SparkJobError(f"{committed.topic}[{committed.partition}]: {error}") from error
    digits = texts.get(NOTICES, "")
    if not digits.isdigit():
        return Prefix(committed.offset, NO_MARK)
    return Prefix(committed.offset, int(digits), tuple(done.runs))

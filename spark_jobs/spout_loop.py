"""What runs beside a spout's query: one thread reads outcomes and commits the acked prefix, one replays what failed.

The acked prefix is the offset of the spout's consumer group, `{topology}.{spout}`, on the source topic. The commit's
metadata holds the mark: the offset from which the notices have to be read to learn the outcomes of the rest. An
operator who resets the group's offsets removes it, and so asks for a second delivery.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, Message, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kafka_clients.client_settings import for_consumer
from kafka_clients.librdkafka_bugs import LOST, BrokerMonitor
from kafka_clients.log_reader import watermarks
from spark_jobs.delivering import Deliveries, ReplayRequest, SourceRange, SpoutBatch
from spark_jobs.entries import dead_letter
from spark_jobs.errors import SparkJobError, TopicsRefusedError
from spark_jobs.outcomes import Outcomes
from tuple_tree.errors import VersionError, WireError
from tuple_tree.messages import FailReason, decode_notice_batch
from tuple_tree.names import component_group
from tuple_tree.positions import MAX_PARTITIONS
from tuple_tree.source_positions import Offsets, Prefix, Replays

logger = logging.getLogger("spark_jobs.spout")

_SECONDS: Final = 10.0
_VERSION: Final = "1"
_MARK: Final = "notices="
_REFRESH_SECONDS: Final = 3_600.0
"""A broker forgets an offset of a group without members 7 days after its last commit unless set otherwise
(`offsets.retention.minutes`): so those of a quiet partition are committed again."""

_POLL_SECONDS: Final = 0.05
_POLL_NOTICES: Final = 500
_COMMIT_SECONDS: Final = 1.0
_SILENCE_SECONDS: Final = 30.0

_REACH: Final = 50_000
"""Offsets of a partition that a round of replays reads, at most."""

_MOST: Final = 10_000
"""Messages of a round, at most."""

_NONE: Final = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets of a source partition, from `start` up to and without `end`."""

    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class SourceReader:
    """Reads ranges of the source topic by position, with these options of Spark's Kafka source."""

    spark: SparkSession
    topic: str
    options: Mapping[str, str]

    def read(self, ranges: Sequence[Range]) -> DataFrame:
        """The messages of ranges, one for each partition, as far as they are still there."""
        options = {
            **self.options,
            "includeHeaders": "true",
            "failOnDataLoss": "false",
            "assign": json.dumps({self.topic: [each.partition for each in ranges]}),
            "startingOffsets": json.dumps({self.topic: {str(each.partition): each.start for each in ranges}}),
            "endingOffsets": json.dumps({self.topic: {str(each.partition): each.end for each in ranges}}),
        }
        return self.spark.read.format("kafka").options(**options).load()

    def offsets(self, ranges: Sequence[Range]) -> list[tuple[int, Offsets]]:
        """Which offsets there are in ranges, by partition, in rising order."""
        filled = [each for each in ranges if each.start < each.end]
        if not filled:
            return []
        table = self.read(filled).select("partition", "offset").toArrow()
        partitions, offsets = table["partition"].to_numpy(), table["offset"].to_numpy()
        return [(partition, np.sort(offsets[partitions == partition])) for partition in np.unique(partitions).tolist()]


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
        for each in _without_error(self._consumer.committed(asked, timeout=_SECONDS)):
            prefixes[each.partition] = None
            if each.offset != OFFSET_INVALID:
                prefix = Prefix(each.partition, each.offset, mark_of(each))
                self._committed[each.partition] = prefixes[each.partition] = prefix
        return prefixes

    def commit(self, prefixes: Iterable[Prefix]) -> None:
        """Commits what has changed, and now and then what has not.

        A failure is only logged: the next commit covers it, and until then a restart just delivers more twice.
        """
        changed = {each.partition: each for each in prefixes if self._committed.get(each.partition) != each}
        now = time.monotonic()
        is_refresh = now >= self._refresh_at
        if is_refresh:
            changed = self._committed | changed
        if not changed:
            return
        offsets = [
            TopicPartition(self._source, each.partition, each.offset, f"{_VERSION}:{_MARK}{each.mark}")
            for each in changed.values()
        ]
        try:
            _without_error(self._consumer.commit(offsets=offsets, asynchronous=False) or [])
        except KafkaException as error:
            logger.warning("the offsets of %s could not be committed: %s", self._source, error)
            return
        self._committed |= changed
        if is_refresh:
            self._refresh_at = now + _REFRESH_SECONDS

    def notices_end(self) -> int:
        return self._watermarks(*self._notices)[1]

    def read_from(self, mark: int) -> None:
        """Starts reading the notices at an offset, or at the first one that is left."""
        self.mark = max(mark, self._watermarks(*self._notices)[0])
        self._consumer.assign([TopicPartition(*self._notices, self.mark)])

    def poll(self, seconds: float) -> list[Message]:
        """Reads notices; `mark` moves behind them."""
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
            raise KafkaException(KafkaError(KafkaError._FATAL, f"reading the notices cannot go on: {LOST}", fatal=True))
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


class SpoutLoop:
    """A thread that owns the spout's consumer, and one for replays, which may take as long as a micro-batch.

    `error` is why the loop cannot go on, `on_error` is called then; an error of the `landing` ends it too.
    `on_replayed` is called with what a round of replays has written.
    """

    def __init__(
        self, batch: SpoutBatch, offsets: SpoutOffsets, outcomes: Outcomes, reader: SourceReader, retry_limit: int
    ) -> None:
        self._batch = batch
        self._offsets = offsets
        self._outcomes = outcomes
        self._reader = reader
        self._retry_limit = retry_limit
        self._deliveries = Deliveries(reader.spark.sparkContext)
        self._rounds = 0
        self._stopping = threading.Event()
        self._draining = threading.Event()
        name = component_group(batch.manifest.topology, batch.spout.name)
        self._thread = threading.Thread(target=self._run, name=f"outcomes of {name}", daemon=True)
        self._replaying = threading.Thread(target=self._replay, name=f"replays of {name}", daemon=True)
        self.error: BaseException | None = None
        self.on_error: Callable[[], object] = lambda: None
        self.on_replayed: Callable[[Sequence[SourceRange]], object] = lambda _ranges: None
        self.landing: StreamingQuery | None = None

    def catch_up(self, mark: int, end: int) -> None:
        """Reads the notices up to an end; before `start`."""
        self._offsets.read_from(mark)
        last = time.monotonic()
        while self._offsets.mark < end:
            if self._read():
                last = time.monotonic()
            elif time.monotonic() > last + _SILENCE_SECONDS:
                raise TopicsRefusedError(
                    f"the notices before offset {end} could not be read within {_SILENCE_SECONDS:g} s, only those "
                    f"before {self._offsets.mark}: check the brokers"
                )

    def start(self) -> None:
        self._thread.start()
        self._replaying.start()

    def drain(self) -> None:
        """Lets the loop end as soon as nothing is open."""
        self._draining.set()

    def stop(self) -> None:
        """Ends the loop, commits, and closes the consumer."""
        self._stopping.set()
        self._thread.join()

    def ended(self, seconds: float | None) -> bool:
        """Waits for the end of the loop; returns whether it has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        commit_at = 0.0
        try:
            while not self._is_over:
                if self.landing is not None and (error := self.landing.exception()):
                    raise error
                self._read()
                now = time.monotonic()
                self._outcomes.tick(now)
                if now >= commit_at:
                    commit_at = now + _COMMIT_SECONDS
                    self._offsets.commit(self._outcomes.prefixes(self._offsets.mark))
            # What is being delivered again has to be known before the last commit.
            self._replaying.join()
            self._offsets.commit(self._outcomes.prefixes(self._offsets.mark))
        except BaseException as error:  # whatever it is, the query must not go on without us
            logger.exception("the loop of the outcomes cannot go on")
            self._fail(error)
        finally:
            self._offsets.close()

    def _replay(self) -> None:
        try:
            while not self._is_over:
                if due := self._outcomes.take_due(_MOST, _REACH, _POLL_SECONDS):
                    self._deliver_again(due)
        except BaseException as error:  # as above
            logger.exception("replays cannot go on")
            self._fail(error)

    def _deliver_again(self, replays: Sequence[Replays]) -> None:
        """Delivers positions again, or writes their dead letters where no attempt is left.

        Those that need no outcome are done: they became dead letters, or are no longer there.
        """
        self._rounds += 1
        ranges = [Range(each.partition, int(each.offsets[0]), int(each.offsets[-1]) + 1) for each in replays]
        wanted = {each.partition: ReplayRequest(each.offsets, each.attempts, self._given_up(each)) for each in replays}
        written = self._batch.write(self._reader.read(ranges), self._deliveries, wanted)
        self.on_replayed(written)
        alive = {each.partition: np.setdiff1d(each.offsets, each.dead) for each in written}
        finished = [(each.partition, np.setdiff1d(each.offsets, alive.get(each.partition, _NONE))) for each in replays]
        dead, ended = sum(len(each.dead) for each in written), sum(len(offsets) for _, offsets in finished)
        logging.getLogger("spark_jobs.progress").info(
            "%s: replay round %d, %d delivered again, %d dead letters, %d no longer there",
            self._batch.spout.name,
            self._rounds,
            sum(len(each.offsets) for each in replays) - ended,
            dead,
            ended - dead,
        )
        for partition, offsets in finished:
            self._outcomes.done(partition, offsets)

    def _given_up(self, replays: Replays) -> dict[int, str]:
        """Why positions are not delivered again, of those that have no attempt left."""
        spent = np.flatnonzero(replays.attempts > self._retry_limit)
        offsets, reasons = replays.offsets[spent].tolist(), replays.reasons[spent].tolist()
        return {
            offset: f"all {self._retry_limit + 1} attempts failed, the last one with reason {FailReason(reason).word}"
            + (f": {message}" if (message := replays.messages.get(offset)) else "")
            for offset, reason in zip(offsets, reasons, strict=True)
        }

    @property
    def _is_over(self) -> bool:
        is_drained = self._draining.is_set() and self._outcomes.idle
        return self._stopping.is_set() or is_drained or self.error is not None

    def _fail(self, error: BaseException) -> None:
        self.error = self.error or error
        self.on_error()

    def _read(self) -> bool:
        """Reads notices, and returns whether there were any."""
        messages = self._offsets.poll(_POLL_SECONDS)
        for message in messages:
            value = message.value()
            value = value.encode() if isinstance(value, str) else value
            place = topic, partition, offset = message.topic() or "", message.partition() or 0, message.offset() or 0
            try:
                self._outcomes.read(decode_notice_batch(value))
            except VersionError as error:
                raise SparkJobError(f"{topic}[{partition}] offset {offset} cannot be read: {error.detail}") from error
            except WireError as error:
                # Its trees are given up as lost in the end.
                logger.warning("unreadable notice at offset %d of %s: %s", offset, topic, error)
                topology, by = self._batch.manifest.topology, f"{self._batch.spout.name}/0"
                self._batch.send(
                    [dead_letter(topology, place, reason=error.reason, detail=error.detail, by=by, value=value)]
                )
        return bool(messages)

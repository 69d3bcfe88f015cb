"""Two threads run beside a spout's query: one reads outcomes and commits the acked prefix, one replays failed messages.

The acked prefix is the offset of the spout's consumer group, `{topology}.{spout}`, on the source topic. The commit's
metadata has what is done behind it, and the mark: the offset from which the notices have to be read to learn the
outcomes of the rest. An operator who resets the group's offsets removes both, and so asks for a second delivery.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import numpy as np
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, Message, TopicPartition
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kafka_clients.client_settings import for_consumer
from kafka_clients.control_reader import ControlReader
from kafka_clients.librdkafka_bugs import LOST, BrokerMonitor
from kafka_clients.log_reader import watermarks
from kafka_clients.repeated_lines import get_logger
from spark_jobs.delivering import Delivered, SpoutBatch, together
from spark_jobs.entries import dead_letter
from spark_jobs.errors import SparkJobError, StoppedBetweenBatches, TopicsRefusedError
from spark_jobs.outcomes import Outcomes, Prefix, Replays
from spark_jobs.source_reader import Ranges, SourceReader
from tuple_tree.commit_metadata import DONE, LARGEST_METADATA, NOTICES, REFRESH_SECONDS, Commit, read_commit_metadata
from tuple_tree.done_sets import DoneSet
from tuple_tree.errors import CommitError, VersionError, WireError
from tuple_tree.messages import decode_notice_batch
from tuple_tree.names import component_group
from tuple_tree.positions import MAX_PARTITIONS, OFFSET_BITS

logger = get_logger("spark_jobs.spout")

_SECONDS: Final = 10.0
_NO_MARK: Final = -1
_POLL_SECONDS: Final = 0.05
_POLL_NOTICES: Final = 500
_COMMIT_SECONDS: Final = 1.0
_SILENCE_SECONDS: Final = 30.0

_REACH: Final = 50_000
"""Offsets of a partition that a round of replays reads, at most."""

_MOST: Final = 10_000
"""Messages of a round, at most."""


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

    def commit(self, prefixes: Mapping[int, Prefix]) -> None:
        """Commits what has changed, and now and then what has not.

        A failure is only logged: the next commit covers it, and until then a restart just delivers more twice.
        """
        now, every = time.monotonic(), {**self._committed, **prefixes}
        is_refresh = now >= self._refresh_at
        offsets = [
            TopicPartition(self._source, number, each.offset, self._metadata(each))
            for number, each in every.items()
            if is_refresh or self._committed.get(number) != each
        ]
        if not offsets:
            return
        try:
            _without_error(self._consumer.commit(offsets=offsets, asynchronous=False) or [])
        except KafkaException as error:
            logger.warning("the offsets of %s could not be committed: %s", self._source, error)
            if error.args[0].code() == KafkaError.OFFSET_METADATA_TOO_LARGE:
                self._room = min(self._room, max(len(each.metadata or "") for each in offsets)) // 2
                text = "less of what is done is committed; set offset.metadata.max.bytes of the brokers to %d"
                logger.error(text, LARGEST_METADATA)
            return
        self._committed = every
        if is_refresh:
            self._refresh_at = now + REFRESH_SECONDS

    def _metadata(self, of: Prefix) -> str:
        return Commit.of(DoneSet(of.offset, of.runs), {NOTICES: str(of.mark)}, self._room).metadata

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
        return Prefix(committed.offset, _NO_MARK)
    return Prefix(committed.offset, int(digits), tuple(done.runs))


class SpoutLoop:
    """A thread that owns the spout's consumer, and one for replays, which may take as long as a micro-batch.

    `error` is why the loop cannot continue.
    """

    def __init__(
        self,
        spark: SparkSession,
        batch: SpoutBatch,
        offsets: SpoutOffsets,
        outcomes: Outcomes,
        reader: SourceReader,
        control: ControlReader,
    ) -> None:
        self._spark = spark
        self._batch = batch
        self._offsets = offsets
        self._outcomes = outcomes
        self._reader = reader
        self._control = control
        outcomes.control = None
        self._rounds = 0
        self._stopping = threading.Event()
        reader.is_stopped = self._stopping.is_set
        self._draining = threading.Event()
        name = component_group(batch.manifest.topology, batch.spout.name)
        self._thread, self._replaying = (
            threading.Thread(target=self._guarded, args=(work,), name=f"{what} of {name}", daemon=True)
            for what, work in (("outcomes", self._run), ("replays", self._replay))
        )
        self.error: BaseException | None = None

    def recover(self, bounds: Ranges, planned: Mapping[int, int], starting_offsets: str) -> dict[int, int]:
        """Opens what may have been delivered, and reads the outcomes since; before `start`.

        Returns where the query begins in a new checkpoint. Where nothing was planned, it begins at the group's offset.
        """
        committed = self._offsets.committed(bounds)
        starts: dict[int, int] = {}
        for number, there in bounds.items():
            prefix = committed.get(number)
            if prefix is None:
                # A partition that was added to a source in use is read from its beginning, as Spark does.
                late = starting_offsets == "latest" and not planned
                starts[number] = there.stop if late else there.start
            elif prefix.offset > there.stop:
                raise TopicsRefusedError(
                    f"partition {number} of {self._reader.topic} ends at {there.stop}, before the offset "
                    f"{prefix.offset} up to which it was acked: was it made anew? Then take a fresh checkpoint and "
                    "reset the group's offsets"
                )
            else:
                starts[number] = max(prefix.offset, there.start)
        acking = self._batch.manifest.acking
        end = self._offsets.notices_end() if acking else 0
        ahead = {number: range(start, planned.get(number, start)) for number, start in starts.items()}
        marks = [committed[number].mark if number in committed else _NO_MARK for number, each in ahead.items() if each]
        # Where an operator has set the offsets back, earlier notices count no more.
        mark = end if not marks or _NO_MARK in marks else min(marks)
        positions = self._reader.positions(ahead)
        self._outcomes.recovered(positions, mark)
        runs = [
            (number << OFFSET_BITS | begin, number << OFFSET_BITS | end)
            for number, prefix in committed.items()
            for begin, end in prefix.runs
        ]
        if runs:
            places = np.searchsorted(positions, runs)
            self._outcomes.done(np.concatenate([positions[begin:end] for begin, end in places.tolist()]))
        if acking:
            self._catch_up(mark, end)
        self._outcomes.forget_counts()
        first = starts.keys() - committed.keys()
        self._offsets.commit({number: Prefix(starts[number], mark) for number in first})
        return starts

    def start(
        self,
        landing: StreamingQuery | None,
        on_error: Callable[[], object],
        on_replayed: Callable[[Delivered], object],
    ) -> None:
        """Starts the threads. The landing ends with the loop, and its error ends both.

        `on_error` is called when the loop cannot continue, `on_replayed` with what a round of replays has written.
        """
        self._landing, self._on_error, self._on_replayed = landing, on_error, on_replayed
        self._thread.start()
        self._replaying.start()

    def drain(self, seconds: float | None) -> bool:
        """Lets the loop end as soon as nothing is open, and waits for that; returns whether it has ended."""
        self._draining.set()
        self._thread.join(seconds)
        return not self.is_running

    def stop(self) -> None:
        """Commits, and ends the loop and the landing."""
        self._stopping.set()
        self._thread.join()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def _catch_up(self, mark: int, end: int) -> None:
        """Reads the notices up to an end."""
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

    def _guarded(self, work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:  # whatever it is, the query must not continue without us
            logger.exception("%s cannot continue", threading.current_thread().name)
            self.error = self.error or error
            self._on_error()

    def _run(self) -> None:
        commit_at = 0.0
        try:
            while not self._is_over:
                if self._landing is not None and (error := self._landing.exception()):
                    raise error
                self._read()
                self._outcomes.tick()
                self._control.look(now := time.monotonic())
                self._outcomes.control = self._control.state
                if now >= commit_at:
                    commit_at = now + _COMMIT_SECONDS
                    self._offsets.commit(self._outcomes.prefixes(self._offsets.mark))
            # The replays that run have to end before the last commit, which includes them.
            self._replaying.join()
            self._offsets.commit(self._outcomes.prefixes(self._offsets.mark))
        finally:
            self._offsets.close()
            self._control.close()
            if self._landing is not None:
                self._landing.stop()

    def _replay(self) -> None:
        try:
            while not self._is_over:
                if replays := self._outcomes.take_due(_MOST, _REACH, _POLL_SECONDS):
                    self._deliver_again(replays)
        except StoppedBetweenBatches:
            pass  # what was not delivered again stays open, for the next start
        finally:
            self._reader.close()

    def _deliver_again(self, replays: Replays) -> None:
        """Delivers messages again, or writes their dead letters where no attempt is left.

        Those that need no outcome are done: they became dead letters, or are no longer there.
        """
        self._rounds += 1
        several: list[Delivered] = []
        self._reader.read(replays, lambda table: several.append(self._batch.replay(self._spark.createDataFrame(table))))
        written = together(several)
        self._on_replayed(written)
        alive = np.setdiff1d(written.positions, written.dead)
        finished = np.setdiff1d(replays.positions, alive)
        get_logger("spark_jobs.progress").info(
            "%s: replay round %d, %d delivered again, %d dead letters, %d no longer there",
            self._batch.spout.name,
            self._rounds,
            len(alive),
            len(written.dead),
            len(finished) - len(written.dead),
        )
        self._outcomes.done(finished)

    @property
    def _is_over(self) -> bool:
        is_drained = self._draining.is_set() and self._outcomes.idle
        return self._stopping.is_set() or is_drained or self.error is not None

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
                self._batch.send([dead_letter(topology, by, place, error, value=value)])
        return bool(messages)

"""The source of a `KafkaSpout`: reads ahead, emits new messages, and reads and emits failed messages again."""

from collections.abc import Sequence
from typing import Any, Final

from kafka_clients.repeated_lines import get_logger
from spout_sdk.errors import AccessError, BrokerError, TopicsError
from spout_sdk.kafka_spout.kafka_source import KafkaSource, OffsetOutOfRange
from spout_sdk.kafka_spout.message_emitter import MessageEmitter
from spout_sdk.kafka_spout.outcomes import OutcomeWriter
from spout_sdk.kafka_spout.partitions import new_partitions, warn_of_deleted, warn_of_lost
from spout_sdk.kafka_spout.read_ahead import ReadAhead, Run
from spout_sdk.kafka_spout.translation import FirstPoll
from spout_sdk.records import MadeRecord, Record
from spout_sdk.spouts.source import SpoutSource
from spout_sdk.spouts.spout_task import SpoutTask
from tuple_tree.errors import WireError
from tuple_tree.messages import Failure
from tuple_tree.positions import first_position, roots_of_words
from tuple_tree.source_messages import AGAIN_SECONDS, SourceMessages
from tuple_tree.source_partition import OwnedPartition, SourcePartition

logger = get_logger("spout_sdk.kafka_spout")

READ: Final = 500  # messages that are read ahead, at most
_COMMITTED_READ: Final = 10_000  # the same with at_most_once, where each read waits milliseconds for a commit
_GROWTH_SECONDS: Final = 30.0


class SourceTask(SpoutSource):
    """The source partitions of one task; it is called in the task's thread."""

    calls = READ
    waits = True

    def __init__(self, spout: Any, task: SpoutTask) -> None:
        super().__init__(spout, task)
        manifest, environment = task.context.manifest, task.environment
        self._context, self._clock = task.context, environment.clock
        self._most_uncommitted, self._is_replayed = spout.max_uncommitted_offsets, manifest.acking
        self._ack_partitions = manifest.ack_partitions
        number = [each.name for each in manifest.spouts].index(task.context.component)
        task.collector.first_position = first_position(number)
        self.messages = SourceMessages(spout.retry.delay)
        self._outcomes = OutcomeWriter(task, self.messages)
        self._emitter = MessageEmitter(spout, task, first_position(number), self.messages, self._outcomes)
        self._buffer = ReadAhead(self.messages, manifest.ack_partitions, has_roots=self._is_replayed)
        self._by = f"{task.context.component}/{task.context.task}"
        self._is_started = self._is_fetching = False
        self._look_at = self._hold_until = 0.0
        self._ends: dict[SourcePartition, int] = {}  # of partitions with messages in the buffer
        self._has_ack: bool = spout.has_ack

    # Called by the task

    def open(self) -> None:
        assert self._task.environment.open_source is not None, "the loop of a spout sets it"  # noqa: S101 - of the SDK
        self._source: KafkaSource = self._task.environment.open_source()
        super().open()

    def emit(self, calls: int, limit: int) -> None:
        """Emits `calls` messages at most, failed ones before new ones, except for messages that have failed often.

        It reads at most once, so that it returns soon even if `translate` skips all messages of a read.
        """
        buffer = self._buffer
        most = self._room(calls, limit)
        has_new = bool(buffer) or (most > 0 and self._read_ahead())
        most -= sum(self._emit_again(*each) for each in self.messages.take_due(most, limit, has_new=has_new))
        if not most or not has_new:
            return
        emitted, left = 0, most
        while buffer and (left > 0 or not emitted):
            count = left if left > 0 else most
            if not self._may_emit(buffer.first, count):
                return
            run = buffer.take(count)
            left -= len(run.records)
            emitted += self._emitter.emit_run(run)

    def emit_failed(self, calls: int, limit: int) -> None:
        for each in self.messages.take_due(self._room(calls, limit), limit, has_new=False):
            self._emit_again(*each)
        if (most := self._room(calls, limit)) > 0 and any(each.has_inherited for each in self.messages):
            run = self._buffer.take_inherited(most)
            if run is None and self._read_ahead(is_draining=True):
                run = self._buffer.take_inherited(most)
            if run is not None:
                self._emitter.emit_run(run)

    def _room(self, calls: int, limit: int) -> int:
        return min(calls, limit - len(self._task.open_trees))

    def wait(self, seconds: float) -> bool:
        return bool(self._buffer) or self._read_ahead(seconds)

    def tick(self, now: float) -> None:
        """Begins to read, and reads failed messages again that are due."""
        if now >= self._look_at:
            self._look_for_partitions(now)
        if not self._is_started:
            return
        if self._task.control != "running":
            self.messages.trim()
        if self._is_fetching:
            self._take_fetched(now)
        elif wanted := self.messages.next_round(now):
            self._source.fetch(wanted, now)
            self._is_fetching = True

    def acked(self, keys: Sequence[int]) -> None:
        if self._has_ack:
            super().acked(keys)

    def done(self, keys: Sequence[int], failure: Failure | None = None) -> None:
        self._outcomes.completed(keys, failure)

    def failed(self, key: int, failure: Failure) -> None:
        super().failed(key, failure)
        self.messages.failed(key, failure, self._clock())

    def close(self) -> None:
        try:
            super().close()
        finally:
            for each in self.messages:
                if (lost := each.lost) is not None:
                    warn_of_lost(self._by, each.at, *lost)
            self._source.close()

    def is_due(self, now: float) -> bool:
        """Whether there is a message to emit now, in a partition without too many uncommitted offsets."""
        readable = (each for each in self.messages if not self._is_full(each))
        is_retried = self._is_fetching or self.messages.is_due(now)
        return bool(self._buffer) or is_retried or any(self._source.lag(each.at) for each in readable)

    # Beginning

    def _look_for_partitions(self, now: float) -> None:
        """Begins to read, or reads partitions that were added to a topic from their beginning; logs why it cannot.

        Called outside of the group's callbacks, so that it can be tried again.
        """
        self._look_at = now + (_GROWTH_SECONDS if self._is_started else AGAIN_SECONDS)
        try:
            added = self._add_missing("uncommitted_earliest" if self._is_started else self._spout.first_poll)
        except BrokerError as error:
            if isinstance(error, TopicsError) or (isinstance(error, AccessError) and not self._is_started):
                raise
            what = "does not know whether its topics have grown" if self._is_started else "cannot begin to read yet"
            logger.warning("%s %s: %s", self._by, what, error)
            return
        self._is_started |= added

    def _add_missing(self, first_poll: FirstPoll) -> bool:
        added = new_partitions(self._source, self._spout, self._task, first_poll, self.messages, self._skip_deleted)
        if not added:
            return True
        # Commits where it begins, and the attempts that it takes, before it emits a message.
        if not self._reserve(added):
            return False
        for each in added:
            self.messages.add(each)
        self._source.start({each.at: each.read_to for each in added})
        logger.info("%s reads %s", self._by, ", ".join(f"{each.at} from {each.read_to}" for each in added))
        return True

    # New messages

    def _read_ahead(self, seconds: float = 0.0, *, is_draining: bool = False) -> bool:
        """Reads messages; partitions with too many uncommitted offsets are left out.

        The buffer is empty; but while the topology drains, it may have new messages, and only partitions with inherited
        messages are read. Waits at most `seconds` for the first message.
        """
        if not self._is_started:
            return False
        self._ends |= self._source.take_ends()
        # Messages before the end of a partition are emitted if the buffer has none of it.
        buffered = self._buffer.skip_inherited()
        self.messages.skip_to({at: end for at, end in self._ends.items() if at not in buffered})
        self._ends = {at: end for at, end in self._ends.items() if at in buffered}
        limit = READ if self._is_replayed else _COMMITTED_READ
        for each in self.messages:
            is_full = self._is_full(each)
            if each.is_paused != (is_paused := is_full or (is_draining and not each.has_inherited)):
                each.is_paused = is_paused
                (self._source.pause if is_paused else self._source.resume)(each.at)
            if self._most_uncommitted is not None and not is_full:
                limit = min(limit, self._most_uncommitted - each.offsets.started_behind)
        records, out_of_range = self._source.read(limit, seconds)
        for gap in out_of_range:
            self._skip_deleted(gap)
        self._buffer.add(records)
        return bool(records)

    def _is_full(self, of: OwnedPartition) -> bool:
        return self._most_uncommitted is not None and of.offsets.started_behind >= self._most_uncommitted

    def _skip_deleted(self, gap: OffsetOutOfRange) -> None:
        self._context.count("out_of_range", warn_of_deleted(self._by, gap))

    def _may_emit(self, run: Run, count: int) -> bool:
        """Whether the commit has the first messages of a run as emitted; commits that if it has not."""
        end = run.offset + min(count, len(run.records))
        if end <= run.of.may_emit_to:
            return True
        # With at_most_once, messages in the buffer of all partitions wait for one commit.
        partitions = [run.of] if self._is_replayed else [each for each in self.messages if each.is_behind]
        now = self._clock()
        for each in partitions:
            each.reserve(end if self._is_replayed else each.buffered_to, now)
        return self._reserve(partitions)

    def _reserve(self, partitions: Sequence[OwnedPartition]) -> bool:
        """Commits the offsets and attempts that partitions take; after a failure, not again for a second."""
        now, room = self._clock(), self._source.metadata_room
        if now < self._hold_until:
            return False
        if not self._source.commit_now({each.at: each.reservation.made(room) for each in partitions}):
            self._hold_until = now + AGAIN_SECONDS
            return False
        for each in partitions:
            each.reserved()
        return True

    # Messages that failed

    def _take_fetched(self, now: float) -> None:
        """Takes messages that were read again: they are due, or become dead letters."""
        if (fetched := self._source.fetched(now)) is None:
            self._is_fetching = False
            return
        for record in fetched.records:
            key = self._key(record.topic(), record.partition(), record.offset())
            if why := self.messages.read_again(key, record):
                self._emitter.reject(key, record, WireError("retries-exhausted", why))
        for at, offset in fetched.gone:
            key = self._key(*at, offset)
            why = self.messages.failed_at(key).exhausted or "it has failed, and cannot be delivered again"
            detail = f"the source has no message at this offset any more (retention or compaction); {why}"
            self._emitter.reject(key, MadeRecord(*at, offset), WireError("gone", detail))
        for at, offset in fetched.unread:
            self.messages.postpone(self._key(*at, offset), now)

    def _key(self, topic: str | None, partition: int | None, offset: int | None) -> int:
        return self.messages.named(topic, partition).first_key + (offset or 0)

    def _emit_again(self, key: int, record: Record) -> bool:
        each, offset = self.messages.at(key)
        failed = each.failed[offset]
        may_emit = each.has_attempt(failed) or self._reserve([each])
        (root,) = roots_of_words([each.attempt_id(offset)], [each.topic_key], self._ack_partitions).tolist()
        if not may_emit or (failed.repeats_root and not self._outcomes.may_repeat_root(key, root)):
            self.messages.postpone(key, self._clock())
            return False
        if not self._emitter.emit(record, key, root):
            return False
        self.messages.emitted_again(key)
        self._context.count("replayed")
        return True

"""The adapter of a `KafkaSpout`: reads ahead, emits, reads failed messages again, and commits done ones.

A message is in exactly one place: its tree is pending, or it waits for a retry, is being read again, is ready to be
emitted again, or its dead letter is not delivered yet. Its offset stays open all that time. Only its key is kept, a
number; the payload is read again.
"""

from collections.abc import Sequence
from typing import Any, Final

from kafka_clients.repeated_lines import get_logger
from spout_sdk.errors import AccessError, BrokerError, TopicsError
from spout_sdk.kafka_spout.beginning import new_partitions, warn_of_deleted, warn_of_lost
from spout_sdk.kafka_spout.message_emitter import MessageEmitter
from spout_sdk.kafka_spout.outcomes import OutcomeWriter
from spout_sdk.kafka_spout.partitions import (
    OffsetOutOfRange,
    OwnedPartition,
    OwnedPartitions,
    SourcePartition,
    SourceProgress,
)
from spout_sdk.kafka_spout.read_ahead import ReadAhead, Run
from spout_sdk.kafka_spout.replays import AGAIN_SECONDS, Replays
from spout_sdk.kafka_spout.spout import FirstPoll, KafkaSpout
from spout_sdk.records import Record
from spout_sdk.spouts.adapters import SpoutAdapter, adapter_of
from spout_sdk.spouts.spout_task import SpoutTask
from spout_sdk.statistics.stats import MostFailed
from tuple_tree.commit_metadata import Commit
from tuple_tree.errors import WireError
from tuple_tree.messages import Failure
from tuple_tree.outcome_records import Outcome
from tuple_tree.positions import first_position, roots_of_words

logger = get_logger("spout_sdk.kafka_spout")

READ: Final = 500  # messages that are read ahead, at most
_COMMITTED_READ: Final = 10_000  # the same with at_most_once, where each read waits milliseconds for a commit
_GROWTH_SECONDS: Final = 30.0


@adapter_of.register(KafkaSpout)
class SourceTask(SpoutAdapter):
    """The source partitions of one task; it is called in the task's thread."""

    calls = READ
    waits = True

    def __init__(self, spout: KafkaSpout, task: SpoutTask) -> None:
        super().__init__(spout, task)
        context, environment = task.context, task.environment
        self._most_uncommitted = spout.max_uncommitted_offsets
        self.is_replayed = context.manifest.acking
        self._ack_partitions = context.manifest.ack_partitions
        self._number = [each.name for each in context.manifest.spouts].index(context.component)
        self._counters = environment.counters
        self._context = context
        task.collector.first_position = first_position(self._number)
        self._partitions = OwnedPartitions()
        target = (declared := context.manifest.spout(context.component)).outcomes
        has_outcomes = self.is_replayed and (target is not None or declared in context.manifest.answered_spouts)
        self._outcomes = (
            OutcomeWriter(task, target, self._partitions, self._outcome_delivered) if has_outcomes else None
        )
        self._messages = MessageEmitter(
            *(spout, task, task.collector.first_position),
            is_replayed=self.is_replayed,
            begun=None if self._outcomes is None else self._outcomes.begun,
            skipped=self._skipped,
            rejected=self._rejected,
            failed=self._retry,
        )
        self._clock = environment.clock
        self._by = f"{context.component}/{context.task}"
        self._is_started = False
        self._look_at = self._hold_until = 0.0
        self._buffer = ReadAhead(self._partitions, context.manifest.ack_partitions, has_roots=self.is_replayed)
        self._ends: dict[SourcePartition, int] = {}  # of partitions with messages in the buffer
        # Only a subclass defines `ack`; without one, a call for each message would do nothing.
        self._has_ack = getattr(spout.ack, "__func__", None) is not KafkaSpout.ack

    # Called by the task

    def open(self) -> None:
        assert self._task.environment.open_source is not None, "the loop of a spout sets it"  # noqa: S101 - of the SDK
        self._source = self._task.environment.open_source()
        self._replays = Replays(self._spout.retry, self._partitions, self._source, self._messages.reject)
        super().open()

    def emit(self, calls: int, limit: int) -> None:
        """Emits `calls` messages at most, failed ones before new ones, except for messages that have failed often.

        It reads at most once, so that it returns soon even if `translate` skips all messages of a read.
        """
        buffer, replays = self._buffer, self._replays
        most = self._room(calls, limit)
        has_new = bool(buffer) or (most > 0 and self._read_ahead())
        most -= sum(self._emit_again(*each) for each in replays.take(most, limit, has_new=has_new))
        if not most or not has_new:
            return
        emitted, left = 0, most
        while buffer and (left > 0 or not emitted):
            count = left if left > 0 else most
            if not self._may_emit(buffer.first, count):
                return
            run = buffer.take(count)
            left -= len(run.records)
            emitted += self._messages.emit_run(run)

    def emit_failed(self, calls: int, limit: int) -> None:
        for each in self._replays.take(self._room(calls, limit), limit, has_new=False):
            self._emit_again(*each)
        if (most := self._room(calls, limit)) > 0 and any(each.has_inherited for each in self._partitions):
            run = self._buffer.take_inherited(most)
            if run is None and self._read_ahead(is_draining=True):
                run = self._buffer.take_inherited(most)
            if run is not None:
                self._messages.emit_run(run)

    def _room(self, calls: int, limit: int) -> int:
        return min(calls, limit - len(self._task.open_trees))

    @property
    def retrying(self) -> int:
        if not self.is_replayed:
            return 0
        # Messages that have ended, and whose outcomes are not delivered yet, are neither open trees nor emitted again.
        ended = 0 if self._outcomes is None else self._outcomes.undelivered
        return max(0, sum(each.offsets.open_count for each in self._partitions) - len(self._task.open_trees) - ended)

    @property
    def most_failed(self) -> MostFailed:
        return self._replays.most_failed

    def tick(self, now: float) -> None:
        """Begins to read, and reads failed messages again that are due."""
        if now >= self._look_at:
            self._look_for_partitions(now)
        if not self._is_started:
            return
        if self._task.control != "running":
            self.release()
        self._replays.tick(now)

    def is_due(self, now: float) -> bool:
        """Whether there is a message to emit now, in a partition without too many uncommitted offsets."""
        readable = (each for each in self._partitions if not self._is_full(each))
        return bool(self._buffer) or self._replays.is_due(now) or any(self._source.lag(each.at) for each in readable)

    def acked(self, keys: Sequence[int]) -> None:
        if self._has_ack:
            super().acked(keys)

    def done(self, keys: Sequence[int], failure: Failure | None = None) -> None:
        if self._outcomes is None:
            self._replays.acked(keys)
        else:
            self._outcomes.acked(keys, failure)

    def failed(self, key: int, failure: Failure) -> None:
        super().failed(key, failure)
        self._retry(key, failure)

    def _retry(self, key: int, failure: Failure) -> None:
        """Delivers a failed message again, or gives it up."""
        if self._outcomes is not None:
            self._outcomes.failed(key, failure)
        self._replays.failed(key, failure, self._clock())

    def commits(self, room: int) -> dict[SourcePartition, Commit]:
        return {each.at: each.next_commit().made(room) for each in self._partitions}

    def committed(self) -> None:
        for each in self._partitions:
            each.committed()

    @property
    def progress_key(self) -> Any:
        return [
            (each.read_to, each.may_emit_to, each.offsets.committable, each.offsets.open_count)
            for each in self._partitions
        ]

    def release(self) -> None:
        for each in self._partitions:
            each.trim()

    def close(self) -> None:
        try:
            super().close()
        finally:
            for each in self._partitions:
                if (lost := each.lost) is not None:
                    warn_of_lost(self._by, each.at, *lost)
            self._source.close()

    @property
    def progress(self) -> SourceProgress:
        uncommitted = sum(each.offsets.uncommitted_count for each in self._partitions)
        lag = sum(self._source.lag(each.at) for each in self._partitions)
        return SourceProgress(lag + len(self._buffer), uncommitted, len(self._replays))

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
        added = new_partitions(
            *(
                self._source,
                self._spout.topics,
                self._context,
                first_poll,
                self._partitions.numbered,
                self._skip_deleted,
            ),
            is_replayed=self.is_replayed,
            is_transactional=self._task.environment.is_transactional,
        )
        if not added:
            return True
        # Commits where it begins, and the attempts that it takes, before it emits a message.
        if not self._reserve([*added.values()]):
            return False
        for each in added.values():
            self._partitions.add(each)
        self._source.start({at: each.read_to for at, each in added.items()})
        logger.info("%s reads %s", self._by, ", ".join(f"{at} from {each.read_to}" for at, each in added.items()))
        return True

    # New messages

    def wait(self, seconds: float) -> bool:
        return bool(self._buffer) or self._read_ahead(seconds)

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
        self._partitions.skip_to({at: end for at, end in self._ends.items() if at not in buffered})
        self._ends = {at: end for at, end in self._ends.items() if at in buffered}
        limit = READ if self.is_replayed else _COMMITTED_READ
        for each in self._partitions:
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

    def _may_emit(self, run: Run, count: int) -> bool:
        """Whether the commit has the first messages of a run as emitted; commits that if it has not."""
        end = run.offset + min(count, len(run.records))
        if end <= run.of.may_emit_to:
            return True
        # With at_most_once, messages in the buffer of all partitions wait for one commit.
        partitions = [run.of] if self.is_replayed else [each for each in self._partitions if each.is_behind]
        now = self._clock()
        for each in partitions:
            each.extend(end if self.is_replayed else each.buffered_to, now)
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

    def _emit_again(self, key: int, record: Record) -> bool:
        each, offset = self._partitions.at(key)
        failures = each.own_failures(offset)
        if not each.has_attempt(failures) and not self._reserve([each]):
            self._replays.postpone(key, self._clock())
            return False
        word = each.word(offset, failures)
        (root,) = roots_of_words([word], [each.topic_key], self._ack_partitions).tolist()
        if self._outcomes is not None and each.repeats_root(failures) and not self._outcomes.begins_again(key, root):
            self._replays.postpone(key, self._clock())
            return False
        if not self._messages.emit(record, key, root):
            return False
        self._replays.emitted(key)
        self._context.count("replayed")
        return True

    def _skipped(self, key: int) -> None:
        self._end(key, "skipped")

    def _rejected(self, key: int, error: WireError) -> None:
        self._end(key, "dead-letter", error.reason, error.detail)

    def _end(self, key: int, outcome: Outcome, reason: str = "", detail: str = "") -> None:
        if self._outcomes is None:
            self._replays.done(key)
        else:
            self._outcomes.ended(key, outcome, reason, detail)

    def _outcome_delivered(self, key: int) -> None:
        self._replays.done(key)

    def _skip_deleted(self, gap: OffsetOutOfRange) -> None:
        self._context.count("out_of_range", warn_of_deleted(self._by, gap))

"""The loop of an acker: polls the ack log as a member of its group, folds, sends notices, commits.

Notices are acknowledged before the offset that covers them is committed.
"""

import dataclasses
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from acker_worker.fold import LogRecord, PartitionFold, Step
from acker_worker.ledger import LedgerSettings
from acker_worker.notifier import Notifier
from acker_worker.owned import Owned
from acker_worker.progress import Progress
from acker_worker.stats import Counters, WorkerStats, summed
from kafka_clients.access import ACKER
from kafka_clients.catalogue import Catalogue, KafkaSettings
from kafka_clients.client_settings import for_group
from kafka_clients.errors import GONE, BrokerError, TopicsError
from kafka_clients.group_consumer import GroupConsumer
from kafka_clients.librdkafka_bugs import HANG_SECONDS
from kafka_clients.log_reader import watermarks
from kafka_clients.loop_runner import NOT_STALLED, Loop, Stalled
from kafka_clients.repeated_lines import EACH, client_logger, get_logger
from kafka_clients.topic_watch import TopicWatch
from tuple_tree.manifest import Manifest
from tuple_tree.names import acker_group, acks_topic
from tuple_tree.timing import Interval

logger = get_logger(__name__)
CONTACT_SECONDS: Final = 5.0  # how long a broker may take to answer, in seconds
ANSWER_SECONDS: Final = 30.0  # how long a commit may take while brokers answer, in seconds
HELD_UP_SECONDS: Final = 10.0  # after how long without acknowledgements a warning is logged, in seconds
_STUCK_CLOSE_SECONDS: Final = 1.0  # for a consumer that has lost a commit
_DRAIN_SECONDS: Final = 1.0
_LAST_DRAIN_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.02
_POLL_RECORDS: Final = 500


class AckerLoop(Loop):
    """Follows the tuple trees in the partitions of the ack log that the group assigns to this process.

    All methods raise `AckerError` and `KafkaException`.
    """

    def __init__(
        self,
        manifest: Manifest,
        kafka: KafkaSettings,
        catalogue: Catalogue,
        commit_interval_s: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
        instance: str | None = None,
        on_tick: Callable[[float], object] = lambda _now: None,
    ) -> None:
        self._manifest = manifest
        self._ledger_settings = LedgerSettings.of(manifest)
        self._topic, self._group = acks_topic(manifest.topology), acker_group(manifest.topology)
        self._clock = clock
        self._on_tick = on_tick
        settings = {
            **for_group(kafka, self._group, instance),
            "enable.partition.eof": True,
            "logger": client_logger("acker_worker"),
        }
        # A consumer that cannot be closed keeps its heartbeats: this is how long its group waits for it. librdkafka
        # rejects an interval below the session.
        longest = max(int(settings.get("max.poll.interval.ms", 45_000)), int(settings["session.timeout.ms"]))
        settings["max.poll.interval.ms"] = longest
        self._consumer = GroupConsumer(
            *(settings, self._topic, instance), role=ACKER, on_error=self._on_error, on_commit=self._answered
        )
        # An open transaction holds a reader of committed records back, and its idea of the end with it.
        self._watermarks = GroupConsumer({**settings, "isolation.level": "read_uncommitted"}, self._topic)
        self._notifier = Notifier(manifest.topology, kafka, catalogue, clock)
        self.watch = TopicWatch(catalogue.admin, [self._topic])
        self._commits = Interval(commit_interval_s, clock)
        self._undrained_since: float | None = None
        self._owned: dict[int, Owned] = {}
        # Commits without an answer, by partition and offset.
        self._asked: dict[frozenset[tuple[int, int]], dict[int, Progress]] = {}
        self._asked_at = 0.0
        self._past = Counters()
        self._rebuilds = 0
        self._rebuild_s = 0.0
        self._leaving = False
        self._consumer.subscribe(self._topic, self._on_assign, self._on_revoke, self._on_lost)

    def turn(self) -> bool:
        """Reads, folds and sends once, and commits if it is time to; returns whether there was anything to read."""
        messages = self._consumer.read(_POLL_RECORDS, _POLL_SECONDS)
        self._take(messages)
        self._advance()
        self._notifier.poll()
        if self._commits.due() and not self._asked:
            self._commit(list(self._owned), _DRAIN_SECONDS)
        self._check_progress()
        self._on_tick(self._clock())
        return bool(messages)

    def end(self) -> None:
        self._commit(list(self._owned), _LAST_DRAIN_SECONDS)
        self._leaving = True
        self._consumer.leave()

    def break_off(self) -> None:
        # Notices of what was folded may not be sent: it must not be committed when the partitions are revoked.
        self._release_partitions(list(self._owned))

    def close(self) -> None:
        """Leaves the group, unless a successor takes its place in it.

        A consumer that has lost a commit would wait for its answer for ever, and stay a member: the process ends then.
        """
        self._leaving = True
        is_stuck = self.unanswered_s > ANSWER_SECONDS or (self.lost and self._asked)
        for consumer in (self._watermarks, self._consumer):
            consumer.close(_STUCK_CLOSE_SECONDS if is_stuck else HANG_SECONDS)

    @property
    def lost(self) -> bool:
        """Whether one of the consumers has lost all brokers for good, see `kafka_clients.librdkafka_bugs`."""
        return self._consumer.lost or self._watermarks.lost

    @property
    def unanswered_s(self) -> float:
        """Seconds since the commit began that is not answered yet; 0 if there is none."""
        return self._clock() - self._asked_at if self._asked else 0.0

    def stats(self, stalled: Stalled = NOT_STALLED) -> WorkerStats:
        total = summed([self._past, *(owned.fold.counters for owned in self._owned.values())])
        wall_ms, now = time.time() * 1000, self._clock()
        held = tuple(owned.stats(wall_ms, now) for owned in self._owned.values())
        return WorkerStats(
            **dataclasses.asdict(total),
            partitions=len(held),
            pending=sum(one.pending for one in held),
            orphans=sum(one.orphans for one in held),
            entries=total.inits + total.acks + total.fails + total.resets,
            dead_letters=self._notifier.dead_letters,
            notices=self._notifier.notices,
            undeliverable=self._notifier.undeliverable,
            rebuilds=self._rebuilds,
            rebuild_seconds=round(self._rebuild_s, 3),
            clock_lag_ms=max((one.clock_lag_ms for one in held), default=0),
            ack_partitions=self._manifest.ack_partitions,
            stalled_ms=int(1000 * stalled[0]),
            stalled_by=stalled[1],
            by_partition=held,
        )

    def stalls(self, now: float) -> list[Stalled]:
        stalls = [(one.stalled_s(now), f"{self._topic}[{number}] is not read") for number, one in self._owned.items()]
        if self._undrained_since is not None:
            stalls.append((now - self._undrained_since, "notices are not acknowledged"))
        return stalls

    def _take(self, messages: list[Message]) -> None:
        batches: dict[int, list[LogRecord]] = defaultdict(list)
        for message in messages:
            record = LogRecord(message.offset() or 0, message.timestamp()[1], message.value())
            batches[message.partition() or 0].append(record)
        for partition, records in batches.items():
            owned = self._owned.get(partition)
            if owned is None:
                continue  # polled before it was revoked
            self._send(owned, owned.fold.apply(records))
            owned.read(self._clock())

    def _on_error(self, message: Message, error: KafkaError) -> bool:
        if error.code() in GONE:
            raise self._gone(error)
        if error.code() != KafkaError._PARTITION_EOF:
            return False
        if (owned := self._owned.get(message.partition() or 0)) is not None:
            owned.end = message.offset()
        return True

    def _gone(self, error: KafkaError) -> TopicsError:
        return TopicsError(
            self._topic,
            f"is gone: {error.str()}. Its open trees have no ledger any more. If this was a mistake, stop the "
            "topology, run acker topics create MODULE:TOPOLOGY, and start it again: what was not acked has to be "
            "emitted again",
        )

    def _advance(self) -> None:
        """Moves the clocks of partitions that are read to their end.

        The time is taken before the high watermark is asked for, so that everything appended up to then is known to
        have been read: a worker that was stopped for a minute reads before anything expires.
        """
        for partition, owned in self._owned.items():
            if not owned.at_end:
                continue
            fold, now = owned.fold, self._clock()
            now_ms = owned.now_ms(now)
            if not fold.rebuilding and not fold.expires_by(now_ms):
                continue
            try:
                self._watermarks.read(1)  # for its statistics: it is assigned nothing
                # The offset after the last record, whether its transaction is over or not.
                _, high = watermarks(self._watermarks.client, TopicPartition(self._topic, partition), CONTACT_SECONDS)
            except KafkaException as error:
                # The others would wait as long for the same brokers.
                logger.warning("%s[%d]: the clock does not advance, %s", self._topic, partition, error.args[0].str())
                return
            if owned.end is not None and owned.end >= high:
                self._send(owned, fold.advance(fold.clock_ms if fold.rebuilding else now_ms))
                owned.read(now)
            else:
                owned.end = None

    def _send(self, owned: Owned, step: Step) -> None:
        if step.outcomes:
            self._notifier.notify(owned.partition, owned.fold.position, step.outcomes)
        for rejected in step.rejected:
            self._notifier.reject(owned.partition, rejected)
        if owned.rebuilding_since is not None and not owned.fold.rebuilding:
            self._rebuilds += 1
            self._rebuild_s = self._clock() - owned.rebuilding_since
            owned.rebuilding_since = None
            logger.info(
                "rebuilt %s[%d]: %d open trees from %d records in %.2f s",
                *(self._topic, owned.partition, len(owned.fold.ledger), owned.fold.counters.records, self._rebuild_s),
            )

    def _commit(self, partitions: list[int], drain_s: float) -> None:
        """Commits what was folded, if its notices are acknowledged in time; otherwise it is committed later.

        The answer, which comes once there is a broker, is read by `poll` or `close`.
        """
        ahead = [self._owned[p] for p in partitions if p in self._owned and self._owned[p].ahead]
        if not ahead:
            self._undrained_since = None
            return
        reached = {owned.partition: owned.fold.progress for owned in ahead}
        if not self._notifier.drain(drain_s):
            now = self._clock()
            self._undrained_since = self._undrained_since or now
            seconds = now - self._undrained_since
            if seconds >= HELD_UP_SECONDS:
                logger.warning(
                    "%s: notices have not been acknowledged for %.0f s, so nothing is committed; check the brokers",
                    *(self._manifest.topology, seconds),
                )
            return
        self._undrained_since = None
        self._asked[frozenset((partition, progress.offset) for partition, progress in reached.items())] = reached
        self._asked_at = self._clock()
        offsets = [
            TopicPartition(self._topic, partition, progress.offset, progress.metadata())
            for partition, progress in reached.items()
        ]
        self._consumer.begin_commit(offsets)

    def _answered(self, refused: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
        reached = self._asked.pop(frozenset((each.partition, each.offset) for each in partitions), {})
        if refused is None:
            for partition, progress in reached.items():
                if partition in self._owned:
                    self._owned[partition].committed = progress
        elif refused.code() in GONE:
            self._consumer.raise_later(self._gone(refused))

    def _check_progress(self) -> None:
        """Ends the worker if it is stuck."""
        now = self._clock()
        # librdkafka may lose a commit that was on its way when the brokers went, and then never joins again.
        if min(now - self.watch.unanswered_at, self.unanswered_s) > ANSWER_SECONDS:
            raise BrokerError(
                f"the acker worker of {self._manifest.topology} cannot continue: a commit has had no answer for "
                f"{self.unanswered_s:.0f} s, though the brokers answer. Nothing is lost: start it again"
            )

    def _on_assign(self, partitions: list[TopicPartition]) -> None:
        if not partitions or self._leaving:
            # A worker that is leaving may still be assigned partitions of another one: the next owner reads them.
            self._consumer.client.incremental_assign([])
            return
        starts = []
        for committed in self._consumer.client.committed(partitions, timeout=CONTACT_SECONDS):
            low, high = watermarks(
                self._consumer.client, TopicPartition(self._topic, committed.partition), CONTACT_SECONDS
            )
            progress, loss = (None, None)
            if committed.offset >= 0:
                progress, loss = Progress.of(committed.offset, committed.metadata).within(low, high)
            if loss is not None:
                logger.warning("%s[%d] %s", self._topic, committed.partition, loss, extra=EACH)
            fold = PartitionFold(
                committed.partition, self._manifest.ack_partitions, self._ledger_settings, progress, start=low
            )
            self._owned[committed.partition] = Owned(fold, progress, self._clock())
            starts.append(TopicPartition(self._topic, committed.partition, fold.position))
        self._consumer.client.incremental_assign(starts)
        logger.info("took over partitions %s of %s", sorted(start.partition for start in starts), self._topic)

    def _on_revoke(self, partitions: list[TopicPartition]) -> None:
        self._commit([partition.partition for partition in partitions], _LAST_DRAIN_SECONDS)
        self._on_lost(partitions)

    def _release_partitions(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            owned = self._owned.pop(number, None)
            if owned is not None:
                self._past = summed([self._past, owned.fold.counters])

    def _on_lost(self, partitions: list[TopicPartition]) -> None:
        self._release_partitions(partition.partition for partition in partitions)
        self._consumer.client.incremental_unassign(partitions)
        logger.info("released partitions %s of %s", sorted(p.partition for p in partitions), self._topic)

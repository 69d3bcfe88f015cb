"""The acker worker: polls the ack log, folds it, sends notices, commits.

Notices are acknowledged before the offset that covers them is committed.
"""

import dataclasses
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from acker_worker.ack_log import ANSWER_S, AckLogReader, Reached
from acker_worker.errors import AckerWorkerError
from acker_worker.fold import LogRecord, PartitionFold, Step
from acker_worker.ledger import LedgerSettings, warm_up
from acker_worker.notifier import Notifier
from acker_worker.owned import Owned
from acker_worker.progress import Progress
from acker_worker.stats import Counters, WorkerStats, summed
from kafka_clients.access import ACKER, acker_role
from kafka_clients.catalogue import Catalogue, KafkaSettings
from kafka_clients.errors import TopicError
from kafka_clients.librdkafka_bugs import LOST
from kafka_clients.stats_publisher import StatsPublisher, producer_settings
from kafka_clients.topic_watch import WATCH_SECONDS, TopicWatch
from tuple_tree.manifest import Manifest, topic_specs
from tuple_tree.names import acker_group, acks_topic, dead_letters_topic
from tuple_tree.timing import BROKERS, Interval, Stall

_log = logging.getLogger(__name__)
_DRAIN_S: Final = 1.0
_LAST_DRAIN_S: Final = 10.0
HELD_UP_S: Final = 10.0  # after how long without acknowledgements a warning is logged, and how often, in seconds


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    commit_interval_s: float = 1.0  # what was not committed is folded again after a crash
    log_interval_s: float = 10.0  # between log lines with its figures
    stats_interval_s: float = 0.5  # between snapshots for `on_stats`


class AckerWorker:
    """Follows the tuple trees of one topology, in the partitions of its ack log that the consumer group assigns to it.

    The manifest is looked up unless given; the producer of statistics is one of its own unless given. `on_stats` is
    called with a snapshot every `stats_interval_s`, and at the end.
    """

    def __init__(
        self,
        topology: str,
        kafka: KafkaSettings,
        settings: WorkerSettings | None = None,
        on_stats: Callable[[WorkerStats], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        manifest: Manifest | None = None,
        stats_producer: Producer | None = None,
    ) -> None:
        self._topology = topology
        self._topic = acks_topic(topology)
        self._kafka = dict(kafka)
        self._settings = settings or WorkerSettings()
        self._on_stats = on_stats
        self._clock = clock
        self._stopping = threading.Event()
        self._owned: dict[int, Owned] = {}
        self._undrained_since: float | None = None
        self._answers = Stall(2 * WATCH_SECONDS)
        self._held_up = Interval(HELD_UP_S, clock)
        self._past = Counters()
        self._rebuilds = 0
        self._rebuild_s = 0.0
        self._logged = WorkerStats()
        self._given_manifest = manifest
        self._stats_producer = stats_producer

    def stop(self) -> None:
        """Asks `run` to end cleanly; may be called from a signal handler or another thread."""
        self._stopping.set()

    def run(self) -> None:
        """Works until `stop` is called.

        Raises `AckerWorkerError` if it cannot start, or cannot go on; the message says why and what to do.
        """
        catalogue = Catalogue(self._kafka, group=acker_group(self._topology))
        self._manifest = self._checked(catalogue)
        warm_up()
        self._ledger_settings = LedgerSettings.of(self._manifest)
        self._notifier = Notifier(self._topology, self._kafka, catalogue)
        self._watch = TopicWatch(catalogue.admin, [self._topic])
        producer = self._stats_producer or Producer(producer_settings(self._kafka))
        self._publisher = StatsPublisher(self._topology, "acker", ACKER, producer, catalogue.admin, self._clock())
        self._reader = AckLogReader(self._topology, self._kafka, self._on_committed, self._clock)
        try:
            self._reader.join(self._on_assign, self._on_revoke, self._on_lost)
            _log.info("acker worker of %s started", self._topology)
            self._work()
            self._commit(list(self._owned), _LAST_DRAIN_S)
            self._report()
        except KafkaException as error:
            self._owned.clear()
            self._reader.check_allowed(error.args[0], self._topic)
            raise AckerWorkerError(
                f"the acker worker of {self._topology} cannot go on: {error.args[0].str()}. Nothing is lost: start it "
                "again once the brokers are well, or let another worker take over"
            ) from error
        except BaseException:
            # Notices of what was folded may not be sent: it must not be committed when the partitions are revoked.
            self._owned.clear()
            raise
        finally:
            self._reader.close()
            self._publisher.end(self._clock(), self.stats.retired().to_dict())
        _log.info("acker worker of %s stopped, its partitions are released", self._topology)

    @property
    def stats(self) -> WorkerStats:
        """A snapshot; for the thread of `run` alone."""
        total = summed([self._past, *(owned.fold.counters for owned in self._owned.values())])
        wall_ms, now = time.time() * 1000, self._clock()
        held = tuple(owned.stats(wall_ms, now) for owned in self._owned.values())
        stalled_s, stalled_by = self._stalled(now)
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
            stalled_ms=int(1000 * stalled_s),
            stalled_by=stalled_by,
            by_partition=held,
        )

    def _stalled(self, now: float) -> tuple[float, str]:
        stalls = [(one.stalled_s(now), f"{self._topic}[{number}] is not read") for number, one in self._owned.items()]
        if self._undrained_since is not None:
            stalls.append((now - self._undrained_since, "notices are not acknowledged"))
        stalls.append((self._answers.seconds(now, self._watch.answers), BROKERS))
        longest = max(stalls)
        return longest if longest[0] else (0.0, "")

    def _checked(self, catalogue: Catalogue) -> Manifest:
        manifest = self._given_manifest or catalogue.manifest(self._topology)
        if not manifest.acking:
            raise AckerWorkerError(
                f"topology {self._topology} promises at_most_once, so there is nothing to do: build it with "
                'guarantee="at_least_once"'
            )
        catalogue.check_access(acker_role(manifest))
        wanted = {self._topic, dead_letters_topic(self._topology)}
        problems = catalogue.problems([spec for spec in topic_specs(manifest) if spec.name in wanted])
        if problems:
            raise problems[0]
        if warning := catalogue.short_retention(manifest):
            _log.warning("%s", warning)
        return manifest

    def _work(self) -> None:
        commits = Interval(self._settings.commit_interval_s, self._clock)
        reports = Interval(self._settings.stats_interval_s, self._clock)
        lines = Interval(self._settings.log_interval_s, self._clock)
        while not self._stopping.is_set():
            self._take(self._reader.poll())
            self._advance()
            self._notifier.poll()
            if commits.due() and not self._reader.committing:
                self._commit(list(self._owned), _DRAIN_S)
            self._check_progress()
            if reports.due():
                self._report()
            self._publisher.look(self._clock(), lambda: self.stats.to_dict())
            if lines.due():
                before, self._logged = self._logged, self.stats
                _log.info("%s: %s", self._topology, self._logged.sentence(before))

    def _check_progress(self) -> None:
        """Ends the worker if its ack log was deleted, which an idle one would not notice, or if it is stuck."""
        now = self._clock()
        if problem := self._watch.look(now):
            raise TopicError(*problem)
        if self._reader.lost:
            raise AckerWorkerError(f"the acker worker of {self._topology} cannot go on: {LOST}")
        # librdkafka may lose a commit that was on its way when the brokers went, and then never joins again.
        if min(now - self._watch.unanswered_at, self._reader.unanswered_s) > ANSWER_S:
            raise AckerWorkerError(
                f"the acker worker of {self._topology} cannot go on: a commit has had no answer for "
                f"{self._reader.unanswered_s:.0f} s, though the brokers are well. Nothing is lost: start it again"
            )

    def _take(self, messages: list[Message]) -> None:
        batches: dict[int, list[LogRecord]] = defaultdict(list)
        for message in messages:
            error, partition, offset = message.error(), message.partition(), message.offset()
            if error is not None:
                self._on_error(error, partition, offset)
            elif partition is not None and offset is not None:
                batches[partition].append(LogRecord(offset, message.timestamp()[1], message.value()))
        for partition, records in batches.items():
            owned = self._owned.get(partition)
            if owned is None:
                continue  # polled before it was revoked
            was_rebuilding = owned.fold.rebuilding
            self._send(owned, owned.fold.apply(records))
            owned.read(self._clock())
            if was_rebuilding and not owned.fold.rebuilding:
                self._rebuilt(owned)

    def _on_error(self, error: KafkaError, partition: int | None, offset: int | None) -> None:
        if error.code() != KafkaError._PARTITION_EOF:
            self._reader.check(error, partition)
        elif partition in self._owned and offset is not None:
            self._owned[partition].end = offset

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
                high = self._reader.end(partition)
            except KafkaException as error:
                # The others would wait as long for the same brokers.
                _log.warning("%s[%d]: the clock stands, %s", self._topic, partition, error.args[0].str())
                return
            if owned.end is not None and owned.end >= high:
                was_rebuilding = fold.rebuilding
                self._send(owned, fold.advance(fold.clock_ms if was_rebuilding else now_ms))
                owned.read(now)
                if was_rebuilding:
                    self._rebuilt(owned)
            else:
                owned.end = None

    def _send(self, owned: Owned, step: Step) -> None:
        if step.outcomes:
            self._notifier.notify(owned.partition, owned.fold.position, step.outcomes)
        for rejected in step.rejected:
            self._notifier.reject(owned.partition, rejected)

    def _commit(self, partitions: list[int], drain_s: float) -> None:
        """Commits what was folded, if its notices are acknowledged in time; otherwise it is committed later."""
        ahead = [self._owned[p] for p in partitions if p in self._owned and self._owned[p].ahead]
        if not ahead:
            self._undrained_since = None
            return
        reached = {owned.partition: owned.fold.progress for owned in ahead}
        if not self._notifier.drain(drain_s):
            now = self._clock()
            self._undrained_since = self._undrained_since or now
            seconds = now - self._undrained_since
            if seconds >= HELD_UP_S and self._held_up.due():
                _log.warning(
                    "%s: notices have not been acknowledged for %.0f s, so nothing is committed; check the brokers",
                    *(self._topic, seconds),
                )
            return
        self._undrained_since = None
        self._reader.commit(reached)

    def _on_committed(self, reached: Reached) -> None:
        for partition, progress in reached.items():
            if partition in self._owned:
                self._owned[partition].committed = progress

    def _on_assign(self, partitions: list[TopicPartition]) -> None:
        if not partitions or self._stopping.is_set():
            # A worker that is leaving may still be assigned partitions of another one: the next owner reads them.
            self._reader.start([])
            return
        starts = []
        for committed in self._reader.committed(partitions):
            low, high = self._reader.watermarks(committed.partition)
            progress, loss = (None, None)
            if committed.offset >= 0:
                progress, loss = Progress.of(committed.offset, committed.metadata).within(low, high)
            if loss is not None:
                _log.warning("%s[%d] %s", self._topic, committed.partition, loss)
            fold = PartitionFold(
                committed.partition, self._manifest.ack_partitions, self._ledger_settings, progress, start=low
            )
            self._owned[committed.partition] = Owned(fold, progress, self._clock())
            starts.append(TopicPartition(self._topic, committed.partition, fold.position))
        self._reader.start(starts)
        _log.info("took over partitions %s of %s", sorted(start.partition for start in starts), self._topic)

    def _on_revoke(self, partitions: list[TopicPartition]) -> None:
        self._commit([partition.partition for partition in partitions], _LAST_DRAIN_S)
        self._on_lost(partitions)

    def _on_lost(self, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            owned = self._owned.pop(partition.partition, None)
            if owned is not None:
                self._past = summed([self._past, owned.fold.counters])
        self._reader.release(partitions)
        _log.info("released partitions %s of %s", sorted(p.partition for p in partitions), self._topic)

    def _rebuilt(self, owned: Owned) -> None:
        self._rebuilds += 1
        self._rebuild_s = self._clock() - owned.since
        _log.info(
            "rebuilt %s[%d]: %d open trees from %d records in %.2f s",
            *(self._topic, owned.partition, len(owned.fold.ledger), owned.fold.counters.records, self._rebuild_s),
        )

    def _report(self) -> None:
        if self._on_stats is not None:
            self._on_stats(self.stats)

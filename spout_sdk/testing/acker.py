"""The acker of a simulated cluster: the real fold of each partition, read from the log in memory.

It does what `acker_worker.worker` does: folds what it reads, sends notices, moves its clock on once it has read
everything, and commits behind what it has sent. All decisions are the fold's.
"""

from typing import Final

from acker_worker.fold import LogRecord, PartitionFold, Step
from acker_worker.ledger import LedgerSettings
from acker_worker.progress import Progress
from acker_worker.stats import Counters
from spout_sdk.testing.broker import CommittedOffset, MemoryBroker
from spout_sdk.testing.chance import SimulatedClock
from tuple_tree.headers import dead_letter_headers
from tuple_tree.manifest import Manifest
from tuple_tree.messages import NoticeBatch, SpoutAddress, encode_notice_batch, notice_headers
from tuple_tree.names import acker_group, acks_topic, dead_letters_topic, notices_topic

COMMIT_MS: Final = 1_000
"""Milliseconds between commits, the default of a worker."""


class SimulatedAcker:
    """One partition of the ack log."""

    name: Final = "acker"

    def __init__(self, manifest: Manifest, partition: int, broker: MemoryBroker, clock: SimulatedClock) -> None:
        self._manifest = manifest
        self._broker = broker
        self._clock = clock
        self._topic = acks_topic(manifest.topology)
        self._group = acker_group(manifest.topology)
        self._dead_letters = dead_letters_topic(manifest.topology)
        self._notices_prefix = notices_topic(manifest.topology, "")
        self._partition = partition
        self._settings = LedgerSettings.of(manifest)
        self._commit_at = 0
        self._committed: Progress | None = None
        self._fold = self._taken_over()

    @property
    def counters(self) -> Counters:
        return self._fold.counters

    @property
    def pending(self) -> int:
        return len(self._fold.ledger) - self._fold.ledger.orphans

    def kill(self) -> None:
        """Forgets everything; the next owner folds from the committed position."""
        self._fold = self._taken_over()

    def turn(self, limit: int) -> bool:
        fold, broker_ms = self._fold, self._clock.broker_ms
        records = self._broker.fetch(self._topic, self._partition, fold.position, limit)
        done = True
        if records:
            self._add_outcomes(fold.apply([LogRecord(one.offset_, one.timestamp_[1], one.value_) for one in records]))
        elif fold.rebuilding:
            self._add_outcomes(fold.advance(fold.clock_ms))
        elif fold.expires_by(broker_ms):
            # Everything that was appended up to now is read: this is the only reader of a log that stands still.
            self._add_outcomes(fold.advance(broker_ms))
        else:
            done = False
        if broker_ms >= self._commit_at:
            self._commit_at = broker_ms + COMMIT_MS
            self.commit()
        return done

    def commit(self) -> None:
        if self._fold.rebuilding:
            return
        progress = self._fold.progress
        if progress != self._committed:
            self._committed = progress
            commit = CommittedOffset(progress.offset, progress.metadata())
            self._broker.commit(self._group, self._topic, self._partition, commit)

    def _taken_over(self) -> PartitionFold:
        committed = self._broker.committed(self._group, self._topic, self._partition)
        progress = None if committed is None else Progress.of(committed.offset, committed.metadata)
        self._committed = progress
        return PartitionFold(self._partition, self._manifest.ack_partitions, self._settings, progress)

    def _add_outcomes(self, step: Step) -> None:
        for spout, outcomes in step.outcomes.items():
            for notice in outcomes.notices(self._partition, self._fold.position):
                self._notify(spout, notice)
        for rejected in step.rejected:
            self._send_dead_letter(rejected.record.value, rejected.record.offset, rejected.reason, rejected.detail)

    def _notify(self, spout: SpoutAddress, notice: NoticeBatch) -> None:
        value = encode_notice_batch(notice)
        if spout.topic.startswith(self._notices_prefix) and self._broker.has(spout.topic, spout.task):
            self._broker.append(spout.topic, spout.task, None, value, [*notice_headers(notice)])
        else:
            detail = f"there is no {spout.topic} task {spout.task} in this topology"
            self._send_dead_letter(value, notice.acks_offset, "unknown-spout", detail)

    def _send_dead_letter(self, value: bytes | None, offset: int, reason: str, detail: str) -> None:
        headers = dead_letter_headers(self._topic, self._partition, offset, reason=reason, detail=detail, by="acker")
        self._broker.append(self._dead_letters, 0, None, value, [*headers])

"""The fold: records of one partition of the ack log in, notices out; no Kafka, no clock. See ADR 1.

Time is the append time of the records; only `advance` moves it without one, and its caller must have read everything
that was appended before. Rebuilding is folding from further back: notices that follow from records before the committed
offset were sent already and are not sent again.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from acker_worker import kernels
from acker_worker.errors import LedgerError, UnsupportedVersionError
from acker_worker.ledger import Ledger, LedgerSettings, Outcomes, Run
from acker_worker.progress import Progress
from acker_worker.sessions import Sessions, Standing
from acker_worker.stats import FAILS, Counters
from tuple_tree.errors import VersionError, WireError
from tuple_tree.ids import IdColumn
from tuple_tree.messages import AckBatch, FailReason, NoticeBatch, SpoutAddress, decode_ack_batch

_MARGIN_TICKS: Final = 1
"""Ticks before the birth of the oldest open record at which a rebuild begins: its ack may precede its init."""
MESSAGE_CHARACTERS: Final = 500
"""Characters of a bolt's message that a notice keeps: a batch of notices must fit a record."""
FULL: Final = 8_192
"""Entries at which they are applied: enough for the call not to be noticed, little enough for the caches."""
MOST_MESSAGES: Final = 16_384
"""Messages of a partition with which a mark keeps its own: 20 MB. Further trees are marked without a message."""
_NOTHING: Final = ("", "")
_NOTICE_ROOTS: Final = 16_384  # most roots in one notice batch: 128 KiB of ids, far from a broker's largest record
_NOTICE_FAILS: Final = 256
"""Most failed roots in one, since each may carry a text: half a megabyte if all are as long as they may be."""


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A record of the ack log, with the broker's append time; its value may be any bytes."""

    offset: int
    append_ms: int
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Rejected:
    record: LogRecord
    reason: str
    detail: str


@dataclass(slots=True)
class SpoutOutcomes:
    """Outcomes for one spout task, in the order in which they were decided.

    Attributes:
        acked: columns of roots.
        failed: root, reason, message of the bolt and its task; both are empty unless a bolt failed the tree.
        marked: of acked trees with a dead letter: root, message of the bolt and its task.
    """

    acked: list[IdColumn] = field(default_factory=list)
    failed: list[tuple[int, FailReason, str, str]] = field(default_factory=list)
    marked: list[tuple[int, str, str]] = field(default_factory=list)

    def notices(self, partition: int, position: int) -> Iterator[NoticeBatch]:
        """Notice batches that are small enough for any broker, acks first.

        The fold of the partition has applied everything before offset `position`.
        """
        if self.acked:
            acked: IdColumn = np.concatenate(self.acked) if len(self.acked) > 1 else self.acked[0]
            for start in range(0, len(acked), _NOTICE_ROOTS):
                yield NoticeBatch(partition, position, acked_roots=acked[start : start + _NOTICE_ROOTS])
        for start in range(0, len(self.failed), _NOTICE_FAILS):
            roots, reasons, messages, failed_by = zip(*self.failed[start : start + _NOTICE_FAILS], strict=True)
            yield NoticeBatch(
                partition,
                position,
                failed_roots=np.array(roots, dtype=np.uint64),
                fail_reasons=np.array(reasons, dtype=np.uint8),
                fail_messages=messages,
                failed_by=failed_by,
            )
        for start in range(0, len(self.marked), _NOTICE_FAILS):
            roots, messages, marked_by = zip(*self.marked[start : start + _NOTICE_FAILS], strict=True)
            yield NoticeBatch(
                partition,
                position,
                marked_roots=np.array(roots, dtype=np.uint64),
                mark_messages=messages,
                marked_by=marked_by,
            )


@dataclass(slots=True)
class Step:
    """Result of folding records: outcomes to send, by spout task, and records for the dead letters."""

    outcomes: dict[SpoutAddress, SpoutOutcomes] = field(default_factory=dict)
    rejected: list[Rejected] = field(default_factory=list)


class PartitionFold:
    """The state of one partition of P: ledger, writers, clock.

    It begins at the commit of an earlier owner, or at offset `start` if there is none.
    """

    def __init__(
        self,
        partition: int,
        partitions: int,
        settings: LedgerSettings,
        committed: Progress | None = None,
        start: int = 0,
    ) -> None:
        self.partition = partition
        self.counters = Counters()
        self.ledger = Ledger(settings)
        self.position = committed.rebuild_from if committed else start
        self.clock_ms = 0
        self._partitions = np.uint64(partitions)
        self._settings = settings
        self._committed = committed
        self._sessions = Sessions(committed.opened if committed else None)
        self._window: int | None = None
        self._ticks: deque[tuple[int, int]] = deque()
        self._messages: dict[int, tuple[str, str]] = {}
        # Entries that wait to be applied at once, and how many. They are applied before anything that would notice: a
        # new tick, the end of a rebuild, the message of a fail, the end of the records.
        self._runs: list[Run] = []
        self._waiting = 0

    def apply(self, records: Iterable[LogRecord]) -> Step:
        """Folds records in, in the order of their offsets. Raises `UnsupportedVersionError`."""
        step = Step()
        for record in records:
            if self._committed is not None and record.offset >= self._committed.offset:
                self._catch_up(step, self._committed)
            if record.append_ms > self.clock_ms:
                self._move_clock(record.append_ms, step)
            elif self._waiting >= FULL:
                self._apply_runs(step)
            self._mark_tick(record.offset)
            self.counters.records += 1
            try:
                batch = decode_ack_batch(record.value, kernels.mix)
                self._check_routing(batch)
                self._apply_batch(batch, record.offset, step)
            except VersionError as error:
                raise UnsupportedVersionError(
                    f"offset {record.offset} of ack partition {self.partition} cannot be read: {error.detail}. Nothing "
                    "is skipped or committed"
                ) from error
            except (WireError, LedgerError) as error:
                if not self.rebuilding:
                    reason = error.reason if isinstance(error, WireError) else "ledger"
                    step.rejected.append(Rejected(record, reason, str(error)))
            self.position = record.offset + 1
        self._apply_runs(step)
        return step

    def advance(self, now_ms: int) -> Step:
        """Moves the clock on without a record; everything that was appended up to `now_ms` must have been read."""
        step = Step()
        if self._committed is not None:
            self._catch_up(step, self._committed)
        if now_ms > self.clock_ms:
            self._move_clock(now_ms, step)
        return step

    def expires_by(self, now_ms: int) -> bool:
        return self.ledger.expires_by(self._tick(now_ms))

    def oldest_ms(self, now_ms: int) -> int | None:
        """How long ago the oldest open record was born, to within a tick; None if there is none."""
        born = self.ledger.oldest_birth()
        return None if born is None else max(0, now_ms - born * self._settings.tick_ms)

    @property
    def progress(self) -> Progress:
        """Offset and metadata to commit once all notices of the records folded before are delivered."""
        if self._committed is not None:
            # Still rebuilding: the earlier owner was ahead, so its commit stands.
            return self._committed
        rebuild_from = self._rebuild_from()
        return Progress(self.position, rebuild_from, self.clock_ms, self._sessions.opened_before(rebuild_from))

    @property
    def rebuilding(self) -> bool:
        """Whether the committed offset of an earlier owner has not been reached."""
        return self._committed is not None

    def _apply_batch(self, batch: AckBatch, offset: int, step: Step) -> None:
        counters = self.counters
        standing = self._sessions.judge(batch.writer, batch.session, batch.sequence, opens=batch.opens, offset=offset)
        if standing is Standing.REPEATED:
            counters.repeated_batches += 1
            return
        if standing is Standing.SUPERSEDED:
            counters.superseded_batches += 1
            return
        if batch.spout is not None and len(batch.init_roots):
            spout = self.ledger.index_of(batch.spout)
            counters.inits += len(batch.init_roots)
            self._add(Run(kernels.INIT, batch.init_roots, batch.init_vals, spout))
        if len(batch.ack_roots):
            counters.acks += len(batch.ack_roots)
            self._add(Run(kernels.ACK, batch.ack_roots, batch.ack_vals))
        if len(batch.mark_roots):
            counters.acks += len(batch.mark_roots)
            self._apply_runs(step)
            for root, message in zip(batch.mark_roots.tolist(), batch.mark_messages, strict=True):
                if len(self._messages) < MOST_MESSAGES:
                    self._messages.setdefault(root, (message[:MESSAGE_CHARACTERS], batch.writer))
            self._add(Run(kernels.MARK, batch.mark_roots, batch.mark_vals))
            self._apply_runs(step)
        if len(batch.fail_roots):
            counters.fails += len(batch.fail_roots)
            # A bolt's message is for the outcome of this fail, not for one that was decided before.
            self._apply_runs(step)
            for root, message in zip(batch.fail_roots.tolist(), batch.fail_messages, strict=True):
                self._messages[root] = message[:MESSAGE_CHARACTERS], batch.writer
            self._add(Run(kernels.FAIL, batch.fail_roots))
            self._apply_runs(step)
        if len(batch.reset_roots):
            counters.resets += len(batch.reset_roots)
            self._add(Run(kernels.RESET, batch.reset_roots))

    def _add(self, run: Run) -> None:
        self._runs.append(run)
        self._waiting += len(run.roots)

    def _apply_runs(self, step: Step) -> None:
        """Applies the entries that wait; nothing may be read from the ledger before."""
        if not self._runs:
            return
        outcomes = self.ledger.apply(self._runs)
        self._runs, self._waiting = [], 0
        self.counters.duplicate_inits = self.ledger.duplicate_inits
        self._add_outcomes(outcomes, step, notify=not self.rebuilding)

    def _check_routing(self, batch: AckBatch) -> None:
        for column in batch.roots:
            if not len(column):
                continue
            roots = np.ascontiguousarray(column, dtype=np.uint64)
            misrouted = kernels.misrouted(roots, self._partitions, np.uint64(self.partition))
            if misrouted >= 0:
                root = int(roots[misrouted])
                raise WireError(
                    "misrouted",
                    f"root {root:016x} of writer {batch.writer} belongs to partition "
                    f"{root % int(self._partitions)}, not {self.partition}: route by the unsigned root mod "
                    f"{self._partitions}",
                )

    def _catch_up(self, step: Step, committed: Progress) -> None:
        """Reaches the committed offset: the clock goes where the earlier owner had it; all later notices are sent."""
        self._move_clock(max(committed.clock_ms, self.clock_ms), step)
        self._apply_runs(step)
        self._committed = None

    def _move_clock(self, now_ms: int, step: Step) -> None:
        """Moves the clock on; notices of what expires are sent even while rebuilding.

        The notice of an ack before the committed offset was sent for certain, since it follows from records. An expiry
        depends on the clock besides, and the earlier owner's may have been moved without a record: it may not have
        expired there. A second notice is ignored; a missing one would leave a spout waiting.
        """
        tick = self._tick(now_ms)
        if self._waiting >= FULL or tick > self._tick(self.clock_ms):
            self._apply_runs(step)
        self.clock_ms = now_ms
        self._add_outcomes(self.ledger.advance(tick), step, notify=True)
        # By the clock alone, so that an owner that rebuilds forgets a writer where the one before it did.
        window = tick // (self._settings.max_age_ticks + 1)
        passed = 0 if self._window is None else window - self._window
        for _ in range(min(passed, 2)):
            self._sessions.rotate()
        self._window = window

    def _add_outcomes(self, outcomes: Outcomes, step: Step, *, notify: bool) -> None:
        if not len(outcomes):
            return
        kinds = np.bincount(outcomes.kinds, minlength=kernels.ORPHANED + 1)
        counters = self.counters
        counters.trees_acked += int(kinds[kernels.ACKED] + kinds[kernels.ACKED_MARKED])
        for reason, name in FAILS.items():
            setattr(counters, name, getattr(counters, name) + int(kinds[reason]))
        counters.orphans_expired += int(kinds[kernels.ORPHANED])
        if notify:
            self._add_acked(outcomes, step)
            if kinds[kernels.ACKED] + kinds[kernels.ORPHANED] < len(outcomes):
                self._add_others(outcomes, step)
        if self._messages:
            for root in outcomes.roots.tolist():
                self._messages.pop(root, None)

    def _add_acked(self, outcomes: Outcomes, step: Step) -> None:
        acked = outcomes.kinds == kernels.ACKED
        roots, spouts = outcomes.roots[acked], outcomes.spouts[acked]
        if not len(roots):
            return
        if (spouts == spouts[0]).all():
            self._outcomes_of(step, int(spouts[0])).acked.append(roots)
            return
        for spout in np.unique(spouts).tolist():
            self._outcomes_of(step, spout).acked.append(roots[spouts == spout])

    def _add_others(self, outcomes: Outcomes, step: Step) -> None:
        """Adds failed trees, and acked trees with a mark."""
        others = (outcomes.kinds != kernels.ACKED) & (outcomes.kinds != kernels.ORPHANED)
        columns = (outcomes.roots[others], outcomes.spouts[others], outcomes.kinds[others])
        for root, spout, kind in zip(*(column.tolist() for column in columns), strict=True):
            message, by = self._messages.get(root, _NOTHING)
            of = self._outcomes_of(step, spout)
            if kind == kernels.ACKED_MARKED:
                of.marked.append((root, message, by))
            elif kind == FailReason.FAILED:
                of.failed.append((root, FailReason.FAILED, message, by))
            else:
                of.failed.append((root, FailReason(kind), *_NOTHING))

    def _outcomes_of(self, step: Step, spout: int) -> SpoutOutcomes:
        return step.outcomes.setdefault(self.ledger.spout(spout), SpoutOutcomes())

    def _tick(self, now_ms: int) -> int:
        return now_ms // self._settings.tick_ms

    def _mark_tick(self, offset: int) -> None:
        tick = self._tick(self.clock_ms)
        if not self._ticks or self._ticks[-1][0] < tick:
            self._ticks.append((tick, offset))

    def _rebuild_from(self) -> int:
        """First offset of the tick before the one in which the oldest open record was born."""
        oldest = self.ledger.oldest_birth()
        needed = (self._tick(self.clock_ms) if oldest is None else oldest) - _MARGIN_TICKS
        while self._ticks and self._ticks[0][0] < needed:
            self._ticks.popleft()
        return self._ticks[0][1] if self._ticks else self.position

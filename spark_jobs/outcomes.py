"""The open trees of a Spark spout, shared by the query that opens them and the loop that reads their outcomes."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import numpy as np

from spark_jobs.delivering import SourceRange, SourceRoots
from spark_jobs.errors import SparkJobError, StoppedBetweenBatches
from tuple_tree.ids import IdColumn
from tuple_tree.latency import LatencyHistogram
from tuple_tree.messages import FailReason, NoticeBatch
from tuple_tree.positions import MAX_PARTITIONS
from tuple_tree.source_positions import Offsets, Prefix, Replays, SourcePositions

logger = logging.getLogger("spark_jobs.spout")

_LOOK_SECONDS: Final = 0.05


class _Notices(NamedTuple):
    """Outcomes as columns; `reasons` and `messages` are None for acks."""

    partitions: Any
    offsets: Any
    attempts: Any
    reasons: Any = None
    messages: Any = None

    def of(self, rows: Any) -> "_Notices":
        return _Notices(*[None if column is None else column[rows] for column in self])


class Outcomes:
    """Which positions are open, and whether there is room for more; thread-safe.

    `limit` is how many trees may be open, `clock` in monotonic seconds. `most` is how many were ever open at once,
    those of an earlier process apart.
    """

    def __init__(
        self,
        positions: SourcePositions,
        roots: SourceRoots,
        limit: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._positions = positions
        self._roots = roots
        self._limit = limit
        self._clock = clock
        self._complete_latency = LatencyHistogram()
        self._reasons: Counter[str] = Counter()
        self._changed = threading.Condition()
        # While a micro-batch is written: where the notices were read to before, and those of what is not known yet.
        self._written_from: int | None = None
        self._early: list[_Notices] = []
        self.acked = self.failed = self.ignored = self.lost = self.most = 0

    def recovered(self, ranges: Iterable[tuple[int, Offsets]], mark: int) -> None:
        """Opens what an earlier process may have delivered, offsets of each partition."""
        with self._changed:
            for partition, offsets in ranges:
                self._positions.delivered(partition, offsets, mark)

    @contextmanager
    def writing(self, rows: int, mark: Callable[[], int], stopping: Callable[[], bool]) -> Iterator[list[SourceRange]]:
        """Waits until there is room for a micro-batch; within the block it is written, and afterwards it is open.

        Its notices that are read within the block count as well: that a tree is open is only known when its task
        reports. What was delivered goes into the list. `rows` is how many there are at most; `mark` returns the offset
        before which the notices were read. Raises `StoppedBetweenBatches` when `stopping` returns true.
        """
        delivered: list[SourceRange] = []
        with self._changed:
            while self._positions.pending and self._positions.pending + rows > self._limit:
                if stopping():
                    raise StoppedBetweenBatches("stopped while waiting for trees to complete")
                self._changed.wait(_LOOK_SECONDS)
            began, self._written_from = self._clock(), mark()
        try:
            yield delivered
        finally:
            with self._changed:
                for each in delivered:
                    self._positions.delivered(each.partition, each.offsets, self._written_from, began)
                self._written_from = None
                self.most = max(self.most, self._positions.pending)
                early, self._early = self._early, []
                for notices in early:
                    self._apply(notices)
                self._changed.notify_all()
        if any(each.partition >= MAX_PARTITIONS for each in delivered):
            raise SparkJobError(
                f"the source topic has grown beyond {MAX_PARTITIONS} partitions, which positional roots tell apart: "
                "copy it to a topic with fewer"
            )

    def read(self, batch: NoticeBatch) -> None:
        """Applies notices; those of other spouts, or of what is not open, are ignored."""
        acked, failed = self._notices(batch.acked_roots), self._notices(batch.failed_roots, batch)
        with self._changed:
            self._apply(acked)
            self._apply(failed)
            self._changed.notify_all()

    def done(self, partition: int, offsets: Any) -> None:
        """Closes positions that need no outcome."""
        with self._changed:
            self._positions.done(partition, offsets)
            self._changed.notify_all()

    def tick(self, now: float) -> None:
        """Gives up what had no outcome for too long."""
        with self._changed:
            if lost := self._positions.tick(now):
                self.lost += lost
                self._reasons[FailReason.LOST.word] += lost
                logger.warning("%d trees had no outcome for the largest tree age: lost, and delivered again", lost)
                self._changed.notify_all()

    def take_due(self, most: int, span: int, seconds: float = 0.0) -> list[Replays]:
        """Takes what has to be delivered again, as far as there is room; waits for some, no longer than `seconds`."""
        with self._changed:
            if not self._positions.due and seconds:
                self._changed.wait(seconds)
            room = min(most, self._limit - self._positions.pending)
            taken = self._positions.take_due(room, span, self._clock()) if room > 0 else []
            self.most = max(self.most, self._positions.pending)
            return taken

    def prefixes(self, mark: int) -> list[Prefix]:
        """How far each partition of the source is done."""
        with self._changed:
            # What was read of the micro-batch under way has to be read again after a crash.
            return self._positions.prefixes(mark if self._written_from is None else min(mark, self._written_from))

    def stats(self) -> dict[str, Any]:
        """What became of trees up to now, in the form of `spout_sdk.Stats`; lost ones have failed.

        Complete latencies are from just before a message was written to when its ack was read.
        """
        with self._changed:
            return {
                "acked": self.acked,
                "failed": dict(self._reasons),
                "ignored_notices": self.ignored,
                "pending": self._positions.pending,
                "complete_latency": dict(self._complete_latency.counts),
            }

    @property
    def outstanding(self) -> int:
        """Trees that are open."""
        return self._positions.pending

    @property
    def due(self) -> int:
        """Messages that have to be delivered again."""
        return self._positions.due

    @property
    def idle(self) -> bool:
        """Whether nothing is open."""
        with self._changed:
            return not (self._positions.pending or self._positions.due)

    def _notices(self, roots: IdColumn, fails: NoticeBatch | None = None) -> _Notices:
        """The positions of this spout's roots, with the reasons of fails; other roots are ignored."""
        is_own, partitions, offsets, attempts = self._roots.positions(roots)
        why = () if fails is None else (fails.fail_reasons, np.array(fails.fail_messages, object))
        with self._changed:
            self.ignored += len(roots) - int(is_own.sum())
        return _Notices(partitions, offsets, attempts, *why).of(is_own)

    def _apply(self, notices: _Notices) -> None:
        for partition in np.unique(notices.partitions).tolist():
            own = notices.of(notices.partitions == partition)
            if self._written_from is not None:
                is_early = own.offsets > self._positions.started(partition)
                if is_early.any():
                    self._early.append(own.of(is_early))
                    own = own.of(~is_early)
            if own.reasons is None:
                known, begun = self._positions.done(partition, own.offsets, own.attempts)
                self.acked += known
                # The trees of a micro-batch began at one moment.
                for moment, trees in zip(*np.unique(begun, return_counts=True), strict=True):
                    self._complete_latency.record(self._clock() - float(moment), int(trees))
            else:
                messages = own.messages.tolist()
                reasons = self._positions.failed(partition, own.offsets, own.attempts, own.reasons, messages).tolist()
                known = len(reasons)
                self.failed += known
                self._reasons.update(FailReason(reason).word for reason in reasons)
            self.ignored += len(own.offsets) - known

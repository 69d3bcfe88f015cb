"""The open trees of a Spark spout, shared by the query that opens them and the loop that hears what becomes of them."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from spark_jobs.delivery_times import DeliveryTimes
from spark_jobs.errors import SparkJobError
from spark_jobs.positional_roots import positions_of
from spark_jobs.running_query import StoppedBetweenBatches
from spark_jobs.spout_batch import Found
from tuple_tree.latency import LatencyHistogram
from tuple_tree.messages import FailReason, NoticeBatch
from tuple_tree.positions import MAX_PARTITIONS
from tuple_tree.source_positions import Prefix, Replay, SourcePositions

logger = logging.getLogger("spark_jobs.spout")

_LOOK_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class Heard:
    """What became of trees, up to a moment.

    Attributes:
        acked: trees.
        failed: trees, by reason; those that were lost, too.
        ignored: notices of what was not open.
        pending: trees that are open.
        complete_latency: bucket → trees; from just before a message was written to when its ack was heard.
    """

    acked: int
    failed: Mapping[str, int]
    ignored: int
    pending: int
    complete_latency: Mapping[int, int]


class Outcomes:
    """Which positions are open, and whether there is room for more; thread-safe.

    Args:
        positions: the books.
        spout: index of the spout, which its roots must have.
        topic_key: of the source topic.
        ack_partitions: of the topology.
        limit: trees that may be open.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        positions: SourcePositions,
        spout: int,
        topic_key: int,
        ack_partitions: int,
        limit: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._positions = positions
        self._spout = spout
        self._key = topic_key
        self._ack_partitions = ack_partitions
        self._limit = limit
        self._clock = clock
        self._times = DeliveryTimes()
        self._complete_latency = LatencyHistogram()
        self._reasons: Counter[str] = Counter()
        self._changed = threading.Condition()
        self.acked = 0
        self.failed = 0
        self.ignored = 0
        self.lost = 0
        self.most = 0
        """The most trees that were ever open at once, those of an earlier process apart."""

    def recovered(self, found: Iterable[Found], mark: int) -> None:
        """Opens what an earlier process may have delivered."""
        with self._changed:
            for each in found:
                self._positions.delivered(each.partition, each.offsets, mark)

    def reserve(self, found: Iterable[Found], mark: Callable[[], int], stopping: Callable[[], bool]) -> int:
        """Waits until there is room for messages, and opens those that are not known yet.

        Args:
            found: the messages.
            mark: says how far the notices were read.
            stopping: says whether to give up.

        Returns:
            How many were opened.

        Raises:
            StoppedBetweenBatches: if it was told to stop.
            SparkJobError: if a partition has no positional root.
        """
        each_found = list(found)
        if any(each.partition >= MAX_PARTITIONS for each in each_found):
            raise SparkJobError(
                f"the source topic has grown beyond {MAX_PARTITIONS} partitions, which positional roots tell apart: "
                "copy it to a topic with fewer"
            )
        with self._changed:
            # What a micro-batch that is run again brings is open already.
            rows = sum(self._positions.unknown(each.partition, each.offsets) for each in each_found)
            while rows and self._positions.pending and self._positions.pending + rows > self._limit:
                if stopping():
                    raise StoppedBetweenBatches("told to stop while waiting for trees to complete")
                self._changed.wait(_LOOK_SECONDS)
            now = self._clock()
            for each in each_found:
                if opened := self._positions.delivered(each.partition, each.offsets, mark()):
                    self._times.delivered(each.partition, each.offsets[-opened], now)
            self.most = max(self.most, self._positions.pending)
            return rows

    def heard(self, batch: NoticeBatch) -> None:
        """Applies notices; those of other spouts, or of what is not open, are ignored."""
        acked, failed = (
            positions_of(roots, self._key, self._ack_partitions) for roots in (batch.acked_roots, batch.failed_roots)
        )
        with self._changed:
            begun: dict[float, int] = {}
            for spout, partition, offset, attempt in acked:
                known = spout == self._spout and self._positions.done(partition, offset)
                self._count(known, acked=True)
                if known and (began := self._times.done(partition, offset, attempt)) is not None:
                    begun[began] = begun.get(began, 0) + 1
            self._measure(begun)
            for (spout, partition, offset, attempt), reason, message in zip(
                failed, batch.fail_reasons.tolist(), batch.fail_messages, strict=True
            ):
                known = spout == self._spout and self._positions.failed(
                    partition, offset, attempt, FailReason(reason), message
                )
                self._count(known, acked=False)
                if known:
                    self._reasons[FailReason(reason).word] += 1
            self._changed.notify_all()

    def done(self, partition: int, offsets: Iterable[int]) -> None:
        """Closes positions that need no outcome."""
        with self._changed:
            for offset in offsets:
                self._positions.done(partition, offset)
                self._times.drop(partition, offset)
            self._changed.notify_all()

    def tick(self, now: float) -> None:
        """Gives up what had no outcome for too long."""
        with self._changed:
            lost = self._positions.tick(now)
            self.lost += lost
            if lost:
                self._reasons[FailReason.LOST.word] += lost
                logger.warning("%d trees had no outcome for the largest tree age: lost, and delivered again", lost)
                self._changed.notify_all()

    def take_due(self, most: int, span: int) -> list[Replay]:
        """Takes what has to be delivered again, as far as there is room."""
        with self._changed:
            room = min(most, self._limit - self._positions.pending)
            taken = self._positions.take_due(room, span) if room > 0 else []
            self._times.again(taken, self._clock())
            self.most = max(self.most, self._positions.pending)
            return taken

    def prefixes(self, mark: int) -> list[Prefix]:
        """How far each partition of the source is done."""
        with self._changed:
            prefixes = self._positions.prefixes(mark)
            self._times.forget(prefixes)
            return prefixes

    def heard_so_far(self) -> Heard:
        """What became of trees up to now."""
        with self._changed:
            return Heard(
                self.acked,
                dict(self._reasons),
                self.ignored,
                self._positions.pending,
                dict(self._complete_latency.counts),
            )

    @property
    def outstanding(self) -> int:
        """Trees that are open."""
        with self._changed:
            return self._positions.pending

    @property
    def due(self) -> int:
        """Messages that have to be delivered again."""
        with self._changed:
            return self._positions.due

    @property
    def idle(self) -> bool:
        """Whether nothing is open."""
        with self._changed:
            return not (self._positions.pending or self._positions.due)

    def _measure(self, begun: Mapping[float, int]) -> None:
        """Takes the latencies of trees: when they began → how many."""
        now = self._clock()
        for began, trees in begun.items():
            each = LatencyHistogram()
            each.record(now - began)
            self._complete_latency.merge(LatencyHistogram(dict.fromkeys(each.counts, trees)))

    def _count(self, known: bool, *, acked: bool) -> None:
        if not known:
            self.ignored += 1
        elif acked:
            self.acked += 1
        else:
            self.failed += 1

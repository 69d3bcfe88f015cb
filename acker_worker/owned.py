"""A partition of the ack log that this worker owns, and how late it is there."""

from acker_worker.fold import PartitionFold
from acker_worker.progress import Progress
from acker_worker.stats import PartitionStats
from tuple_tree.timing import Stall


class Owned:
    """The fold of an owned partition, which was assigned at `since`, in seconds of the worker's clock."""

    __slots__ = ("_clock_ms", "_read_at", "_stall", "committed", "end", "fold", "partition", "rebuilding_since")

    def __init__(self, fold: PartitionFold, committed: Progress | None, since: float) -> None:
        self.fold = fold
        self.partition = fold.partition
        self.committed = committed  # the last commit, by this worker or an earlier owner
        self.rebuilding_since = since if fold.rebuilding else None
        # Offset at which the partition's end was last met; None if it was not, or is known to have moved.
        self.end: int | None = None
        self._read_at = since
        self._stall = Stall()
        self._clock_ms = fold.clock_ms

    @property
    def ahead(self) -> bool:
        return not self.fold.rebuilding and self.fold.progress != self.committed

    @property
    def at_end(self) -> bool:
        """Whether everything was read when the end was last met; it may have come with the last records."""
        return self.end is not None and self.end >= self.fold.position

    def stalled_s(self, now: float) -> float:
        """For how long nothing was read though it is not read to its end; in seconds, by the worker's clock."""
        return self._stall.seconds(now, self.fold.position, has_work=not self.at_end)

    def read(self, now: float) -> None:
        """Notes what the ledger's clock shows at `now`, in seconds of the worker's clock.

        Records that do not move the clock count as none: after a broker's clock was set back, time continues by the
        worker's clock, and trees still time out.
        """
        if self.fold.clock_ms > self._clock_ms:
            self._clock_ms = self.fold.clock_ms
            self._read_at = now

    def now_ms(self, now: float) -> int:
        """Time of the ledger's clock now, in milliseconds: its last reading plus the time since then."""
        # A whole number of milliseconds may come out a little smaller as a float: a nanosecond makes up for that.
        return self._clock_ms + int((now - self._read_at) * 1000 + 1e-6)

    def clock_lag_ms(self, wall_ms: float) -> int:
        """Milliseconds by which the ledger's clock lags the wall clock; 0 if everything is read."""
        if self.at_end or not self.fold.counters.records:
            return 0
        return max(0, int(wall_ms - self.fold.clock_ms))

    def stats(self, wall_ms: float, now: float) -> PartitionStats:
        fold, committed = self.fold, self.committed
        ledger = fold.ledger
        oldest_ms = fold.oldest_ms(self.now_ms(now) if self.at_end else fold.clock_ms)
        return PartitionStats(
            partition=fold.partition,
            pending=len(ledger) - ledger.orphans,
            orphans=ledger.orphans,
            table_load=round(ledger.load, 4),
            table_bytes=ledger.table_bytes,
            clock_lag_ms=self.clock_lag_ms(wall_ms),
            rebuilding=fold.rebuilding,
            position=fold.position,
            committed=-1 if committed is None else committed.offset,
            rebuild_from=-1 if committed is None else committed.rebuild_from,
            oldest_ms=-1 if oldest_ms is None else oldest_ms,
        )

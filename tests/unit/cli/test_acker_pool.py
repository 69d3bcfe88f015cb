"""The sum of several acker workers' statistics."""

from acker_cli.processes.acker_pool import summed
from acker_worker.stats import PartitionStats, WorkerStats


def test_counts_are_added_and_times_are_not() -> None:
    """A partition that moves is shown by its old owner and its new one for a moment: one series is left."""
    moving = PartitionStats(2, pending=5), PartitionStats(2, pending=4)
    first = WorkerStats(7, partitions=3, pending=5, rebuild_seconds=0.5, clock_lag_ms=20, by_partition=moving[:1])
    second = WorkerStats(2, partitions=5, pending=1, rebuild_seconds=0.25, clock_lag_ms=30, by_partition=moving[1:])
    total = summed(first, second)
    assert (total.partitions, total.pending, total.records) == (8, 6, 9)
    assert (total.rebuild_seconds, total.clock_lag_ms, total.by_partition) == (0.5, 30, moving[1:])
    # A worker that has ended keeps what it did, and holds nothing.
    assert first.retired() == WorkerStats(7, rebuild_seconds=0.5)

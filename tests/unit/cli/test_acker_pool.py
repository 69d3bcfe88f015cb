"""What several acker workers did together."""

import json

from acker_cli.acker_pool import summed
from acker_cli.acker_process import AckerLaunch
from acker_worker.stats import PartitionStats, WorkerStats


def test_counts_are_added_and_times_are_not() -> None:
    total = summed(
        [
            WorkerStats(partitions=3, pending=5, trees_acked=7, rebuild_seconds=0.5, clock_lag_ms=20),
            WorkerStats(partitions=5, pending=1, trees_acked=2, rebuild_seconds=0.25, clock_lag_ms=30),
        ]
    )
    assert total == WorkerStats(partitions=8, pending=6, trees_acked=9, rebuild_seconds=0.5, clock_lag_ms=30)


def test_a_partition_that_moves_is_there_once() -> None:
    """Its old owner may still show it when the new one does; two series of one name would be no exposition."""
    total = summed(
        [
            WorkerStats(by_partition=(PartitionStats(0, pending=1), PartitionStats(2, pending=5))),
            WorkerStats(by_partition=(PartitionStats(1), PartitionStats(2, pending=4))),
        ]
    )
    assert total.by_partition == (PartitionStats(0, pending=1), PartitionStats(1), PartitionStats(2, pending=4))


def test_a_retired_worker_keeps_what_it_did_and_holds_nothing() -> None:
    stats = WorkerStats(
        partitions=1, pending=2, orphans=3, clock_lag_ms=4, trees_acked=5, notices=6, by_partition=(PartitionStats(0),)
    )
    assert stats.retired() == WorkerStats(trees_acked=5, notices=6)


def test_a_snapshot_passes_through_its_line() -> None:
    stats = WorkerStats(
        records=3,
        rebuild_seconds=0.5,
        repeated_batches=2,
        superseded_batches=1,
        by_partition=(PartitionStats(7, pending=1, table_load=0.25, rebuilding=True, position=9),),
    )
    assert WorkerStats.of(json.loads(stats.to_json())) == stats
    assert stats.duplicate_batches == 3


def test_a_launch_passes_through_its_line() -> None:
    launch = AckerLaunch("words", {"bootstrap.servers": "k:1", "sasl.password": "hush"}, {"log_interval_s": 5}, "info")
    line = launch.to_line()
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert AckerLaunch.from_line(line) == launch

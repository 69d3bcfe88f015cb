"""What several acker workers did together, and the lines by which their processes are started and report."""

import json

from acker_cli.acker_pool import summed
from acker_cli.acker_process import AckerLaunch
from acker_worker.stats import PartitionStats, WorkerStats


def test_counts_are_added_and_times_are_not() -> None:
    # A partition that moves is shown by its old owner and its new one for a moment: one series for each is left.
    total = summed(
        [
            WorkerStats(
                *(3, 5),
                trees_acked=7,
                rebuild_seconds=0.5,
                clock_lag_ms=20,
                by_partition=(PartitionStats(0, pending=1), PartitionStats(2, pending=5)),
            ),
            WorkerStats(
                *(5, 1),
                trees_acked=2,
                rebuild_seconds=0.25,
                clock_lag_ms=30,
                by_partition=(PartitionStats(1), PartitionStats(2, pending=4)),
            ),
        ]
    )
    assert (total.partitions, total.pending, total.trees_acked) == (8, 6, 9)
    assert (total.rebuild_seconds, total.clock_lag_ms) == (0.5, 30)
    assert total.by_partition == (PartitionStats(0, pending=1), PartitionStats(1), PartitionStats(2, pending=4))


def test_a_retired_worker_keeps_what_it_did_and_holds_nothing() -> None:
    stats = WorkerStats(
        partitions=1, pending=2, orphans=3, clock_lag_ms=4, trees_acked=5, notices=6, by_partition=(PartitionStats(0),)
    )
    assert stats.retired() == WorkerStats(trees_acked=5, notices=6)


def test_snapshots_and_launches_pass_through_lines() -> None:
    partition = PartitionStats(7, pending=1, table_load=0.25, rebuilding=True, position=9)
    stats = WorkerStats(
        records=3, rebuild_seconds=0.5, repeated_batches=2, superseded_batches=1, by_partition=(partition,)
    )
    assert WorkerStats.of(json.loads(stats.to_json())) == stats
    assert stats.duplicate_batches == 3
    launch = AckerLaunch("words", {"bootstrap.servers": "k:1", "sasl.password": "hush"}, {"log_interval_s": 5}, "info")
    line = launch.to_line()
    assert (line[-1:], line.count(b"\n")) == (b"\n", 1)
    assert AckerLaunch.from_line(line) == launch

"""What several acker workers did together."""

from acker_cli.acker_pool import summed
from acker_cli.acker_process import AckerLaunch
from acker_worker.stats import WorkerStats


def test_counts_are_added_and_times_are_not() -> None:
    total = summed(
        [
            WorkerStats(partitions=3, pending=5, trees_acked=7, rebuild_seconds=0.5, clock_lag_ms=20),
            WorkerStats(partitions=5, pending=1, trees_acked=2, rebuild_seconds=0.25, clock_lag_ms=30),
        ]
    )
    assert total == WorkerStats(partitions=8, pending=6, trees_acked=9, rebuild_seconds=0.5, clock_lag_ms=30)


def test_a_launch_passes_through_its_line() -> None:
    launch = AckerLaunch("words", {"bootstrap.servers": "k:1", "sasl.password": "hush"}, {"log_interval_s": 5}, "info")
    line = launch.to_line()
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert AckerLaunch.from_line(line) == launch

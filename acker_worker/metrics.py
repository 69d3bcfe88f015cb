"""What an acker worker shows to Prometheus.

The tables below are the complete list of its metrics: the name, what it says, and where in a snapshot it comes from.
Nothing is counted for them: a scrape reads the latest snapshot that the worker's loop has made.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from acker_worker.stats import PartitionStats, WorkerStats


@dataclass(frozen=True, slots=True)
class OfPartition:
    """A gauge of each owned partition of the ack log, told apart by the label `partition`.

    Attributes:
        name: of the metric.
        says: its help text.
        value: of a partition; negative where there is none, and then nothing is shown.
    """

    name: str
    says: str
    value: Callable[[PartitionStats], float]


@dataclass(frozen=True, slots=True)
class OfWorker:
    """A gauge of the worker.

    Attributes:
        name: of the metric.
        says: its help text.
        value: of the worker.
    """

    name: str
    says: str
    value: Callable[[WorkerStats], float]


@dataclass(frozen=True, slots=True)
class Counted:
    """A counter of the worker since its start; what a rebuild reads again is counted again.

    Attributes:
        name: of the metric.
        says: its help text.
        values: of the worker, by the value of the label; the only one's is empty where there is no label.
        label: what tells the values apart.
    """

    name: str
    says: str
    values: Mapping[str, Callable[[WorkerStats], int]] = field(default_factory=dict)
    label: str = ""


PARTITION_GAUGES: Final = (
    # The work that is open, and where it lies: trees are spread by their roots, so partitions differ little.
    OfPartition("acker_pending_trees", "Open trees whose init was seen.", lambda one: one.pending),
    # Acks overtake inits for moments; orphans that stay come from writers whose spout is gone, or of old windows.
    OfPartition("acker_orphans", "Open records whose init has not been seen.", lambda one: one.orphans),
    # A tree that is older than others was reset, or waits; one that makes no progress fails after its time-out.
    OfPartition(
        "acker_oldest_tree_seconds",
        "Age of the oldest open record; absent where there is none.",
        lambda one: one.oldest_ms / 1000,
    ),
    # The table grows at 0.66 and shrinks at 0.2.
    OfPartition("acker_table_load_ratio", "Share of the homes of the table that is taken.", lambda one: one.table_load),
    OfPartition("acker_table_bytes", "Size of the ledger's table.", lambda one: one.table_bytes),
    # How late outcomes are. A ledger that lags does not fail trees whose acks lie unread.
    OfPartition(
        "acker_clock_lag_seconds",
        "How far the ledger's clock is behind the wall; 0 where the partition is read to its end.",
        lambda one: one.clock_lag_ms / 1000,
    ),
    OfPartition(
        "acker_rebuilding",
        "1 while a new owner reads again what an earlier one had committed.",
        lambda one: int(one.rebuilding),
    ),
    # Position minus committed is what a crash folds and tells again; position minus rebuild_from is what it reads.
    OfPartition("acker_position_offset", "Offset of the next record to be folded.", lambda one: one.position),
    OfPartition(
        "acker_committed_offset", "Committed offset; absent before the first commit.", lambda one: one.committed
    ),
    OfPartition(
        "acker_rebuild_from_offset",
        "Offset at which a new owner would begin to read; absent before the first commit.",
        lambda one: one.rebuild_from,
    ),
)

WORKER_GAUGES: Final = (
    OfWorker("acker_partitions_owned", "Partitions of the ack log that it owns.", lambda stats: stats.partitions),
    # The sum of the above has to come up to it.
    OfWorker("acker_ack_partitions", "Partitions that the ack log has.", lambda stats: stats.ack_partitions),
    # A loop that turns and does nothing; /health judges by it.
    OfWorker(
        "acker_stalled_seconds",
        "For how long there has been work of which nothing was done; 0 where all is done.",
        lambda stats: stats.stalled_ms / 1000,
    ),
    OfWorker("acker_rebuild_seconds", "How long the last rebuild took.", lambda stats: stats.rebuild_seconds),
)

COUNTERS: Final = (
    Counted("acker_records_total", "Records of the ack log that were read.", {"": lambda stats: stats.records}),
    # What spouts and bolts said; repeats that were dropped are not among them.
    Counted(
        "acker_entries_total",
        "Inits, acks, fails and resets that were applied.",
        {
            "init": lambda stats: stats.inits,
            "ack": lambda stats: stats.acks,
            "fail": lambda stats: stats.fails,
            "reset": lambda stats: stats.resets,
        },
        label="rule",
    ),
    # What was decided. `timeout` made no progress for the message timeout, `too_old` reached the largest tree age.
    Counted(
        "acker_trees_total",
        "Trees that ended.",
        {
            "acked": lambda stats: stats.trees_acked,
            "failed": lambda stats: stats.trees_failed,
            "timeout": lambda stats: stats.timeouts,
            "too_old": lambda stats: stats.too_old,
        },
        label="outcome",
    ),
    Counted(
        "acker_orphans_expired_total",
        "Records that left by rotation without an init.",
        {"": lambda stats: stats.orphans_expired},
    ),
    # Applied twice, an init would cancel itself: this is the one repeat that must never pass.
    Counted("acker_inits_ignored_total", "Second inits of open trees.", {"": lambda stats: stats.duplicate_inits}),
    # Retries of producers and of Spark tasks, and what zombies still say. A few are normal.
    Counted(
        "acker_batches_dropped_total",
        "Batches that were dropped: applied already, or of a writer that has a later session.",
        {
            "repeated": lambda stats: stats.repeated_batches,
            "superseded": lambda stats: stats.superseded_batches,
        },
        label="reason",
    ),
    # Outcomes, not batches of them; acknowledged by the broker.
    Counted("acker_notices_total", "Outcomes that were delivered to spouts.", {"": lambda stats: stats.notices}),
    Counted(
        "acker_notices_undeliverable_total",
        "Outcomes whose spout task has no topic and partition.",
        {"": lambda stats: stats.undeliverable},
    ),
    Counted(
        "acker_dead_letters_total", "Records that went to the dead letters.", {"": lambda stats: stats.dead_letters}
    ),
    Counted("acker_rebuilds_total", "Partitions that were rebuilt.", {"": lambda stats: stats.rebuilds}),
)


SERVING: Final = "acker_serving"
"""1 while the worker of a topology is at work or starting, 0 while it cannot be; only where a process serves all."""


class WorkerCollector(Collector):
    """Shows the latest snapshots of workers, told apart by their topology.

    Args:
        latest: returns, by topology, the snapshot of its worker, or the sum over several; called at every scrape, in
            the server's thread.
    """

    def __init__(self, latest: Callable[[], Mapping[str, WorkerStats]]) -> None:
        self._latest = latest

    def collect(self) -> Iterator[Metric]:
        """One family for each line of the tables."""
        workers = self._latest()
        for gauge in WORKER_GAUGES:
            family = GaugeMetricFamily(gauge.name, gauge.says, labels=["topology"])
            for topology, stats in workers.items():
                family.add_metric([topology], gauge.value(stats))
            yield family
        for shown in PARTITION_GAUGES:
            family = GaugeMetricFamily(shown.name, shown.says, labels=["topology", "partition"])
            for topology, stats in workers.items():
                for partition in stats.by_partition:
                    value = shown.value(partition)
                    if value >= 0:
                        family.add_metric([topology, str(partition.partition)], value)
            yield family
        for counted in COUNTERS:
            labels = ["topology", counted.label] if counted.label else ["topology"]
            counter = CounterMetricFamily(counted.name, counted.says, labels=labels)
            for topology, stats in workers.items():
                for value_of_label, count in counted.values.items():
                    values = [topology, value_of_label] if counted.label else [topology]
                    counter.add_metric(values, count(stats))
            yield counter


class ServingCollector(Collector):
    """Shows which topologies a process serves, and which it cannot.

    Args:
        serving: returns, by topology, whether its worker is at work; called as above.
    """

    def __init__(self, serving: Callable[[], Mapping[str, bool]]) -> None:
        self._serving = serving

    def collect(self) -> Iterator[Metric]:
        """The one family."""
        family = GaugeMetricFamily(
            SERVING, "1 while the topology's worker is at work, 0 while it cannot be.", labels=["topology"]
        )
        for topology, serving in self._serving().items():
            family.add_metric([topology], int(serving))
        yield family

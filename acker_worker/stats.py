"""Counters and gauges of an acker worker, each declared once, with its Prometheus metric.

Apart from the fold, so that reading statistics does not load the ledger's compiler.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tuple_tree.messages import WIRE_REASONS, FailReason
from tuple_tree.process_stats import METRIC, filter_known_fields, metric_field


@dataclass(slots=True)
class Counters:
    """Counters of a fold since it began."""

    records: int = metric_field("acker_records_total", "Records of the ack log that were read.")
    # What spouts and bolts sent; repeats that were dropped are not among them.
    inits: int = metric_field(
        "acker_entries_total", "Inits, acks, fails and resets that were applied.", label=("rule", "init")
    )
    acks: int = metric_field("acker_entries_total", "", label=("rule", "ack"))
    fails: int = metric_field("acker_entries_total", "", label=("rule", "fail"))
    resets: int = metric_field("acker_entries_total", "", label=("rule", "reset"))
    # What was decided. `timeout` made no progress for the message timeout, `too_old` reached the largest tree age.
    trees_acked: int = metric_field(
        "acker_trees_total",
        "Trees that ended: acked, failed by a bolt, without progress, or older than the largest tree age.",
        label=("outcome", "acked"),
    )
    trees_failed: int = metric_field("acker_trees_total", "", label=("outcome", FailReason.FAILED.word))
    timeouts: int = metric_field("acker_trees_total", "", label=("outcome", FailReason.TIMEOUT.word))
    too_old: int = metric_field("acker_trees_total", "", label=("outcome", FailReason.TOO_OLD.word))
    orphans_expired: int = metric_field("acker_orphans_expired_total", "Records that left by rotation without an init.")
    # Applied twice, an init would cancel itself: this is the one repeat that must never pass.
    duplicate_inits: int = metric_field("acker_inits_ignored_total", "Second inits of open trees; harmless.")
    # Retries of producers and of Spark tasks, and late batches of zombies. A few are normal.
    repeated_batches: int = metric_field(
        "acker_batches_dropped_total",
        "Batches that were dropped: applied already, or of a writer that has a later session; harmless.",
        label=("reason", "repeated"),
    )
    superseded_batches: int = metric_field("acker_batches_dropped_total", "", label=("reason", "superseded"))


FAILS: Final[dict[FailReason, str]] = {
    reason: each.name
    for each in dataclasses.fields(Counters)
    for reason in WIRE_REASONS
    if each.metadata[METRIC].label == ("outcome", reason.word)
}
"""The field of `Counters` that counts the trees of a fail reason, by its label."""


def summed(counters: Iterable[Counters]) -> Counters:
    """The sum of at least one, field by field."""
    return Counters(*map(sum, zip(*map(dataclasses.astuple, counters), strict=True)))


@dataclass(frozen=True, slots=True)
class PartitionStats:
    """An owned partition of the ack log; -1 stands for what is not known, and is not shown."""

    partition: int
    # The work that is open, and where it lies: trees are spread by their roots, so partitions differ little.
    pending: int = metric_field("acker_pending_trees", "Open trees whose init was seen.")
    # Acks overtake inits for moments; orphans that stay come from writers whose spout is gone, or of old windows.
    orphans: int = metric_field("acker_orphans", "Open records whose init has not been seen.")
    # The table grows at 0.66 and shrinks at 0.2.
    table_load: float = metric_field(
        "acker_table_load_ratio", "How full the table is: 0.2 to 0.66 once it is larger than 200 KB."
    )
    table_bytes: int = metric_field("acker_table_bytes", "Size of the ledger's table.")
    # How late outcomes are. A ledger that lags does not fail trees whose acks lie unread.
    clock_lag_ms: int = metric_field(
        "acker_clock_lag_seconds",
        "How far the ledger's clock is behind the wall; 0 where the partition is read to its end.",
        divisor=1000,
    )
    rebuilding: bool = metric_field(
        "acker_rebuilding", "1 while a new owner reads again what an earlier one had committed.", default=False
    )
    # Position minus committed is what is folded again after a crash; position minus rebuild_from is what it reads.
    position: int = metric_field("acker_position_offset", "Offset of the next record to be folded.")
    committed: int = metric_field(
        "acker_committed_offset", "Committed offset; absent before the first commit.", default=-1
    )
    rebuild_from: int = metric_field(
        "acker_rebuild_from_offset",
        "Offset at which a new owner would begin to read; absent before the first commit.",
        default=-1,
    )
    # By the ledger's clock and to within a tick. A tree that is older than others was reset, or waits; one that makes
    # no progress fails after its time-out.
    oldest_ms: int = metric_field(
        "acker_oldest_tree_seconds",
        "Age of the oldest open record; absent where there is none.",
        default=-1,
        divisor=1000,
    )


@dataclass(slots=True)
class WorkerStats(Counters):
    """A snapshot of a worker, which is not changed any more."""

    partitions: int = metric_field("acker_partitions_owned", "Partitions of the ack log that it owns.")
    pending: int = 0
    orphans: int = 0
    entries: int = 0  # the sum of inits, acks, fails and resets
    dead_letters: int = metric_field("acker_dead_letters_total", "Records that went to the dead letters.")
    # Outcomes, not batches of them; acknowledged by the broker.
    notices: int = metric_field("acker_notices_total", "Outcomes that were delivered to spouts.")
    undeliverable: int = metric_field(
        "acker_notices_undeliverable_total", "Outcomes whose spout task has no topic and partition."
    )
    rebuilds: int = metric_field("acker_rebuilds_total", "Partitions that were rebuilt.")
    rebuild_seconds: float = metric_field("acker_rebuild_seconds", "How long the last rebuild took.", default=0.0)
    # The largest of its partitions.
    clock_lag_ms: int = 0
    # Of all owners, 0 if unknown; the sum of acker_partitions_owned has to equal it.
    ack_partitions: int = metric_field("acker_ack_partitions", "Partitions that the ack log has.")
    # A loop that turns and does nothing; /health judges by it.
    stalled_ms: int = metric_field(
        "acker_stalled_seconds",
        "Seconds for which there has been work and no progress; 0 if all is done.",
        divisor=1000,
    )
    stalled_by: str = ""
    by_partition: tuple[PartitionStats, ...] = ()

    @property
    def stalled(self) -> tuple[float, str]:
        """For how long nothing was done though there was work, in seconds, and what that is."""
        return self.stalled_ms / 1000, self.stalled_by

    def retired(self) -> "WorkerStats":
        """The snapshot of a worker that has ended: counters stay, gauges are zero."""
        held: dict[str, Any] = dict.fromkeys(("partitions", "pending", "orphans", "clock_lag_ms", "stalled_ms"), 0)
        return dataclasses.replace(self, **held, stalled_by="", by_partition=())

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def of(cls, stats: Mapping[str, Any]) -> "WorkerStats":
        """The snapshot behind the object that `to_dict` made; unknown members are ignored."""
        empty = PartitionStats(0)
        partitions = tuple(PartitionStats(**filter_known_fields(one, empty)) for one in stats["by_partition"])
        return cls(**{**filter_known_fields(stats, cls()), "by_partition": partitions})

    def sentence(self, before: "WorkerStats") -> str:
        """Gauges as they are now, and counters since an earlier snapshot."""
        dropped = self.repeated_batches + self.superseded_batches
        dropped_before = before.repeated_batches + before.superseded_batches
        failed = (f"{getattr(self, name) - getattr(before, name)} {reason.word}" for reason, name in FAILS.items())
        return (
            f"{self.partitions} partitions, {self.pending} pending, {self.orphans} orphans; since the last line "
            f"{self.entries - before.entries} entries, {self.trees_acked - before.trees_acked} acked, "
            f"{', '.join(failed)}, {dropped - dropped_before} repeated batches dropped, "
            f"{self.dead_letters - before.dead_letters} dead letters; clock lag {self.clock_lag_ms} ms"
        )

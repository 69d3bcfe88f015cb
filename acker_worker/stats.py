"""What an acker worker has done and holds, for logs, metrics and people."""

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from acker_worker.counters import Counters
from tuple_tree.process_stats import filter_known_fields


@dataclass(frozen=True, slots=True)
class PartitionStats:
    """An owned partition of the ack log.

    Attributes:
        partition: its number.
        pending: open trees.
        orphans: open records whose init has not been seen.
        table_load: share of the homes of the ledger's table that is taken.
        table_bytes: size of that table.
        clock_lag_ms: how far the ledger's clock is behind; 0 where the partition is read to its end.
        rebuilding: whether what an earlier owner committed has not been reached.
        position: offset of the next record to be folded.
        committed: the committed offset; -1 if there is none.
        rebuild_from: where a new owner would begin; -1 if nothing is committed.
        oldest_ms: age of the oldest open record, by the ledger's clock and to within a tick; -1 if there is none.
    """

    partition: int
    pending: int = 0
    orphans: int = 0
    table_load: float = 0.0
    table_bytes: int = 0
    clock_lag_ms: int = 0
    rebuilding: bool = False
    position: int = 0
    committed: int = -1
    rebuild_from: int = -1
    oldest_ms: int = -1


@dataclass(frozen=True, slots=True)
class WorkerStats:
    """A snapshot of a worker. Counters run since its start and include what a rebuild read again.

    Attributes:
        partitions: how many partitions of the ack log it owns.
        pending: open trees.
        orphans: open records whose init has not been seen.
        records: records read.
        entries: inits, acks, fails and resets applied.
        inits, acks, fails, resets: the same, by rule.
        trees_acked, trees_failed, timeouts, too_old: outcomes decided.
        orphans_expired: records that left by rotation without an init.
        duplicate_inits: inits of open roots that were ignored.
        repeated_batches: batches that were dropped because they had been applied already.
        superseded_batches: batches that were dropped because their writer has a later session.
        dead_letters: records that could not be used.
        notices: outcomes delivered to spouts.
        undeliverable: outcomes whose spout topic does not exist.
        rebuilds: partitions rebuilt.
        rebuild_seconds: time that the last rebuild took.
        clock_lag_ms: how far the ledger's clock is behind, at most, over partitions that are not read to their end.
        ack_partitions: how many partitions the ack log has, whoever owns them; 0 if that is not known.
        stalled_ms: for how long there has been work of which nothing was done; 0 where all is done.
        stalled_by: what that is; empty where all is done.
        by_partition: the partitions that it owns.
    """

    partitions: int = 0
    pending: int = 0
    orphans: int = 0
    records: int = 0
    entries: int = 0
    inits: int = 0
    acks: int = 0
    fails: int = 0
    resets: int = 0
    trees_acked: int = 0
    trees_failed: int = 0
    timeouts: int = 0
    too_old: int = 0
    orphans_expired: int = 0
    duplicate_inits: int = 0
    repeated_batches: int = 0
    superseded_batches: int = 0
    dead_letters: int = 0
    notices: int = 0
    undeliverable: int = 0
    rebuilds: int = 0
    rebuild_seconds: float = 0.0
    clock_lag_ms: int = 0
    ack_partitions: int = 0
    stalled_ms: int = 0
    stalled_by: str = ""
    by_partition: tuple[PartitionStats, ...] = ()

    @property
    def duplicate_batches(self) -> int:
        """Batches that were dropped, for whichever reason."""
        return self.repeated_batches + self.superseded_batches

    @property
    def stalled(self) -> tuple[float, str]:
        """For how long nothing was done though there was work, in seconds, and what that is."""
        return self.stalled_ms / 1000, self.stalled_by

    def retired(self) -> "WorkerStats":
        """What remains true after the worker has ended: what it did, but nothing that it holds."""
        held: dict[str, Any] = dict.fromkeys(("partitions", "pending", "orphans", "clock_lag_ms", "stalled_ms"), 0)
        return dataclasses.replace(self, **held, stalled_by="", by_partition=())

    def to_dict(self) -> dict[str, Any]:
        """The snapshot as an object for JSON."""
        return dataclasses.asdict(self)

    def to_json(self) -> str:
        """The snapshot as one JSON object on one line."""
        return json.dumps(self.to_dict(), separators=(",", ":"))

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> "WorkerStats":
        """The snapshot behind the object that `to_dict` made; unknown members are ignored."""
        partitions = tuple(
            PartitionStats(**filter_known_fields(one, PartitionStats(0))) for one in said["by_partition"]
        )
        return cls(**{**filter_known_fields(said, cls()), "by_partition": partitions})

    def sentence(self, before: "WorkerStats") -> str:
        """What is held now, and what was done since an earlier snapshot."""
        return (
            f"{self.partitions} partitions, {self.pending} pending, {self.orphans} orphans; since the last line "
            f"{self.entries - before.entries} entries, {self.trees_acked - before.trees_acked} acked, "
            f"{self.trees_failed - before.trees_failed} failed, {self.timeouts - before.timeouts} timed out, "
            f"{self.too_old - before.too_old} too old, {self.duplicate_batches - before.duplicate_batches} repeated "
            f"batches dropped, {self.dead_letters - before.dead_letters} dead letters; clock lag {self.clock_lag_ms} ms"
        )


def summed(counters: Iterable[Counters]) -> Counters:
    """The sum of counters, field by field."""
    total = Counters()
    for one in counters:
        for field in dataclasses.fields(Counters):
            setattr(total, field.name, getattr(total, field.name) + getattr(one, field.name))
    return total

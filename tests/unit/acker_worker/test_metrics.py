"""The metrics of a worker are the values of its snapshot."""

import dataclasses

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from acker_worker.metrics import WorkerCollector
from acker_worker.owned import Owned
from acker_worker.progress import Progress
from acker_worker.stats import FAILS, PartitionStats, WorkerStats
from tests.unit.acker_worker.folding import START_MS, Log, new_fold
from tuple_tree.messages import WIRE_REASONS

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scraped(stats: WorkerStats) -> Samples:
    registry = CollectorRegistry()
    registry.register(WorkerCollector(lambda: {"words": stats}))
    text = generate_latest(registry).decode()
    return {
        (sample.name, frozenset(sample.labels.items()) - {("topology", "words")}): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels["topology"] == "words"
    }


def key(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


def test_every_number_of_a_snapshot_is_shown() -> None:
    totals = {f"{rule}s": key("acker_entries_total", rule=rule) for rule in ("init", "ack", "fail", "reset")} | {
        "records": key("acker_records_total"),
        "trees_acked": key("acker_trees_total", outcome="acked"),
        "trees_failed": key("acker_trees_total", outcome="failed"),
        "timeouts": key("acker_trees_total", outcome="timeout"),
        "too_old": key("acker_trees_total", outcome="too_old"),
        "orphans_expired": key("acker_orphans_expired_total"),
        "duplicate_inits": key("acker_inits_ignored_total"),
        "repeated_batches": key("acker_batches_dropped_total", reason="repeated"),
        "superseded_batches": key("acker_batches_dropped_total", reason="superseded"),
        "dead_letters": key("acker_dead_letters_total"),
        "notices": key("acker_notices_total"),
        "undeliverable": key("acker_notices_undeliverable_total"),
        "rebuilds": key("acker_rebuilds_total"),
        "partitions": key("acker_partitions_owned"),
        "ack_partitions": key("acker_ack_partitions"),
        "rebuild_seconds": key("acker_rebuild_seconds"),
    }
    of_partition = {
        "pending": ("acker_pending_trees", 1.0),
        "orphans": ("acker_orphans", 1.0),
        "oldest_ms": ("acker_oldest_tree_seconds", 0.001),
        "table_load": ("acker_table_load_ratio", 1.0),
        "table_bytes": ("acker_table_bytes", 1.0),
        "clock_lag_ms": ("acker_clock_lag_seconds", 0.001),
        "rebuilding": ("acker_rebuilding", 1.0),
        "position": ("acker_position_offset", 1.0),
        "committed": ("acker_committed_offset", 1.0),
        "rebuild_from": ("acker_rebuild_from_offset", 1.0),
    }
    # A field that is added to the stats has to be shown, or be the sum of what is shown, or words.
    sums = {"pending", "orphans", "entries", "clock_lag_ms", "by_partition", "stalled_by"}
    assert {field.name for field in dataclasses.fields(WorkerStats)} == {*totals, "stalled_ms"} | sums
    assert {field.name for field in dataclasses.fields(PartitionStats)} == {*of_partition, "partition"}
    held = {name: number for number, name in enumerate(of_partition, start=40)} | {"rebuilding": True}
    counted = {name: number for number, name in enumerate(totals, start=10)}
    stats = WorkerStats(**counted, stalled_ms=1_500, by_partition=(PartitionStats(0, **held), PartitionStats(7)))  # type: ignore[arg-type]
    # Nothing is committed or open in the other, so there are no such samples of it.
    unknown = {"oldest_ms", "committed", "rebuild_from"}
    assert scraped(stats) == pytest.approx(
        {totals[name]: value for name, value in counted.items()}
        | {key("acker_stalled_seconds"): 1.5}
        | {key(of_partition[name][0], partition="0"): value * of_partition[name][1] for name, value in held.items()}
        | {key(name, partition="7"): 0 for field, (name, _) in of_partition.items() if field not in unknown}
    )


def test_each_fail_reason_of_an_acker_is_counted() -> None:
    assert sorted(FAILS) == WIRE_REASONS


def test_the_stats_of_a_partition_are_those_of_its_fold() -> None:
    log, owned = Log(), Owned(new_fold(), Progress(1, 0, START_MS), since=0)
    owned.fold.apply([log.send(inits=[(1, 5), (2, 5)]), log.send(acks=[(1, 5), (3, 5)])])
    owned.end = owned.fold.position
    owned.read(10.0)
    assert owned.stats(START_MS, 10.5).oldest_ms == 500, "the clock of a partition that is read to its end advances"
    owned.end = None
    stats = owned.stats(START_MS + 250, 10.5)
    assert stats.oldest_ms == 0
    assert (stats.partition, stats.pending, stats.orphans) == (0, 1, 1)
    assert (stats.position, stats.committed, stats.rebuild_from) == (2, 1, 0)
    assert (stats.clock_lag_ms, stats.rebuilding) == (250, False)
    assert stats.table_load == round(owned.fold.ledger.load, 4) > 0
    assert stats.table_bytes > 0

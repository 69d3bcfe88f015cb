"""The exposition of a worker says what its snapshot says."""

import dataclasses
import json

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from acker_worker.metrics import COUNTERS, PARTITION_GAUGES, WORKER_GAUGES, WorkerCollector
from acker_worker.owned import Owned
from acker_worker.progress import Progress
from acker_worker.stats import PartitionStats, WorkerStats
from tests.unit.acker_worker.folding import START_MS, Log, new_fold

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
    stats = WorkerStats(
        partitions=2,
        records=10,
        inits=11,
        acks=12,
        fails=13,
        resets=14,
        trees_acked=15,
        trees_failed=16,
        timeouts=17,
        too_old=18,
        orphans_expired=19,
        duplicate_inits=20,
        repeated_batches=21,
        superseded_batches=22,
        dead_letters=23,
        notices=24,
        undeliverable=25,
        rebuilds=26,
        rebuild_seconds=2.75,
        by_partition=(
            PartitionStats(
                0,
                pending=31,
                orphans=32,
                table_load=0.5,
                table_bytes=33,
                clock_lag_ms=3_400,
                rebuilding=True,
                position=35,
                committed=34,
                rebuild_from=0,
                oldest_ms=1_500,
            ),
            PartitionStats(7),
        ),
    )
    first, other = {"partition": "0"}, {"partition": "7"}
    assert scraped(stats) == {
        key("acker_partitions_owned"): 2,
        key("acker_rebuild_seconds"): 2.75,
        key("acker_records_total"): 10,
        key("acker_entries_total", rule="init"): 11,
        key("acker_entries_total", rule="ack"): 12,
        key("acker_entries_total", rule="fail"): 13,
        key("acker_entries_total", rule="reset"): 14,
        key("acker_trees_total", outcome="acked"): 15,
        key("acker_trees_total", outcome="failed"): 16,
        key("acker_trees_total", outcome="timeout"): 17,
        key("acker_trees_total", outcome="too_old"): 18,
        key("acker_orphans_expired_total"): 19,
        key("acker_inits_ignored_total"): 20,
        key("acker_batches_dropped_total", reason="repeated"): 21,
        key("acker_batches_dropped_total", reason="superseded"): 22,
        key("acker_dead_letters_total"): 23,
        key("acker_notices_total"): 24,
        key("acker_notices_undeliverable_total"): 25,
        key("acker_rebuilds_total"): 26,
        key("acker_pending_trees", **first): 31,
        key("acker_orphans", **first): 32,
        key("acker_oldest_tree_seconds", **first): 1.5,
        key("acker_table_load_ratio", **first): 0.5,
        key("acker_table_bytes", **first): 33,
        key("acker_clock_lag_seconds", **first): 3.4,
        key("acker_rebuilding", **first): 1,
        key("acker_position_offset", **first): 35,
        key("acker_committed_offset", **first): 34,
        key("acker_rebuild_from_offset", **first): 0,
        key("acker_pending_trees", **other): 0,
        key("acker_orphans", **other): 0,
        key("acker_table_load_ratio", **other): 0,
        key("acker_table_bytes", **other): 0,
        key("acker_clock_lag_seconds", **other): 0,
        key("acker_rebuilding", **other): 0,
        key("acker_position_offset", **other): 0,
        # Nothing is committed or open there, so nothing is said of it.
    }


def test_no_counter_of_a_snapshot_is_forgotten() -> None:
    """A field that is added to the stats has to be shown, or be the sum of what is shown."""
    sums = {"pending", "orphans", "entries", "clock_lag_ms", "by_partition"}
    fields = {field.name for field in dataclasses.fields(WorkerStats)} - sums
    nothing = json.loads(WorkerStats().to_json())
    changed = {name: scraped(WorkerStats.of({**nothing, name: 5})) for name in fields}
    unchanged = scraped(WorkerStats())
    assert [name for name, samples in changed.items() if samples == unchanged] == []
    of_partition = {field.name for field in dataclasses.fields(PartitionStats)} - {"partition"}
    assert len(PARTITION_GAUGES) == len(of_partition)


def test_names_follow_the_conventions() -> None:
    gauges = [shown.name for shown in (*PARTITION_GAUGES, *WORKER_GAUGES)]
    assert not any(name.endswith("_total") for name in gauges)
    assert all(counted.name.endswith("_total") for counted in COUNTERS)
    names = [*gauges, *(counted.name for counted in COUNTERS)]
    assert len(set(names)) == len(names)
    assert all(name.startswith("acker_") for name in names)


def test_a_partition_says_what_its_fold_holds() -> None:
    log, owned = Log(), Owned(new_fold(), Progress(1, 0, START_MS), since=0)
    owned.fold.apply([log.say(inits=[(1, 5), (2, 5)]), log.say(acks=[(1, 5), (3, 5)])])
    owned.end = owned.fold.position
    owned.read(10.0)
    assert owned.stats(START_MS, 10.5).oldest_ms == 500, "the clock of a partition that is read goes on by itself"
    owned.end = None
    stats = owned.stats(START_MS + 250, 10.5)
    assert stats.oldest_ms == 0
    assert (stats.partition, stats.pending, stats.orphans) == (0, 1, 1)
    assert (stats.position, stats.committed, stats.rebuild_from) == (2, 1, 0)
    assert (stats.clock_lag_ms, stats.rebuilding) == (250, False)
    assert stats.table_load == round(owned.fold.ledger.load, 4) > 0
    assert stats.table_bytes > 0

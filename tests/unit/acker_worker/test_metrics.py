"""The metrics of a worker are the values of its snapshot."""

import dataclasses

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from acker_worker.metrics import WorkerCollector
from acker_worker.owned import Owned
from acker_worker.progress import Progress
from acker_worker.stats import FAILS, PartitionStats, WorkerStats
from tests.ack_log import START_MS, Log, new_fold
from tuple_tree.messages import WIRE_REASONS
from tuple_tree.process_stats import metric_fields


def key(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset({"topology": "words", **labels}.items())


def test_every_number_of_a_snapshot_is_shown() -> None:
    of_worker, of_partition = metric_fields(WorkerStats), metric_fields(PartitionStats)
    # A field that is added to the stats has to be shown, or be the sum of what is shown, or words.
    sums = {"pending", "orphans", "entries", "clock_lag_ms", "by_partition", "stalled_by"}
    assert {field.name for field in dataclasses.fields(WorkerStats)} == {*of_worker} | sums
    assert {field.name for field in dataclasses.fields(PartitionStats)} == {*of_partition, "partition"}
    for name, metric in (*of_worker.items(), *of_partition.items()):
        assert (metric.divisor == 1000) == name.endswith("_ms"), name
        assert metric.name.endswith("_seconds") or not name.endswith(("_ms", "_seconds")), name
    counted = {name: number for number, name in enumerate(of_worker, start=10)}
    held = {name: number for number, name in enumerate(of_partition, start=40)} | {"rebuilding": True}
    stats = WorkerStats(**counted, by_partition=(PartitionStats(0, **held), PartitionStats(7)))  # type: ignore[arg-type]
    expected = [
        (key(metric.name, **dict([metric.label] if metric.label else [])), counted[name] / metric.divisor)
        for name, metric in of_worker.items()
    ]
    for name, metric in of_partition.items():
        expected.append((key(metric.name, partition="0"), held[name] / metric.divisor))
        # Nothing is committed or open in the other, so there are no such samples of it.
        if name not in ("oldest_ms", "committed", "rebuild_from"):
            expected.append((key(metric.name, partition="7"), 0))
    registry = CollectorRegistry()
    registry.register(WorkerCollector(lambda: {"words": stats}))
    families = text_string_to_metric_families(generate_latest(registry).decode())
    found = {key(each.name, **each.labels): each.value for family in families for each in family.samples}
    assert len(dict(expected)) == len(expected)
    assert found == pytest.approx(dict(expected))
    assert sorted(FAILS) == WIRE_REASONS, "each fail reason of an acker is counted"


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

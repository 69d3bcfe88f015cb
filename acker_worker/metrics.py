"""The metrics of acker workers for Prometheus; `acker_worker.stats` has the list."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from acker_worker.stats import PartitionStats, WorkerStats
from kafka_clients.metrics import families
from tuple_tree.process_stats import metric_fields

SERVING: Final = "acker_serving"
"""1 while the worker of a topology runs or starts, 0 while it waits for a retry; only where a process serves all."""
METRIC_NAMES: Final = {each.name for kind in (WorkerStats, PartitionStats) for each in metric_fields(kind).values()} | {
    SERVING
}
"""The names of all metrics of acker workers."""


class WorkerCollector(Collector):
    """Shows, by topology, the latest snapshot of its worker, or the sum over several.

    `latest` is called at every scrape, in the server's thread.
    """

    def __init__(self, latest: Callable[[], Mapping[str, WorkerStats]]) -> None:
        self._latest = latest

    def collect(self) -> Iterator[Metric]:
        workers = self._latest()
        yield from families(WorkerStats, ["topology"], (([name], stats) for name, stats in workers.items())).values()
        partitions = (
            ([name, str(each.partition)], each) for name, stats in workers.items() for each in stats.by_partition
        )
        yield from families(PartitionStats, ["topology", "partition"], partitions).values()


class ServingCollector(Collector):
    """Shows, by topology, whether its worker runs; `serving` is called as above."""

    def __init__(self, serving: Callable[[], Mapping[str, bool]]) -> None:
        self._serving = serving

    def collect(self) -> Iterator[Metric]:
        help_ = "1 while the topology's worker runs, 0 while it waits for a retry."
        family = GaugeMetricFamily(SERVING, help_, labels=["topology"])
        for topology, serving in self._serving().items():
            family.add_metric([topology], int(serving))
        yield family

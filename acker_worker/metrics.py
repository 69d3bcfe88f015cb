"""The metrics of acker workers for Prometheus; `acker_worker.stats` has the list.

Nothing is counted for them: a scrape reads the latest snapshot that the worker's loop has made.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from acker_worker.stats import METRIC, PartitionStats, WorkerStats

SERVING: Final = "acker_serving"
"""1 while the worker of a topology runs or starts, 0 while it waits for a retry; only where a process serves all."""

_Families = dict[str, CounterMetricFamily | GaugeMetricFamily]


def _shown_fields(kind: type[Any]) -> list[tuple[str, Any]]:
    return [(each.name, each.metadata[METRIC]) for each in dataclasses.fields(kind) if METRIC in each.metadata]


_OF_WORKER: Final = _shown_fields(WorkerStats)
_OF_PARTITION: Final = _shown_fields(PartitionStats)
METRIC_NAMES: Final = [*dict.fromkeys(metric.name for _, metric in (*_OF_WORKER, *_OF_PARTITION)), SERVING]
"""Of all metrics of acker workers."""


def _family(families: _Families, metric: Any, *labels: str) -> CounterMetricFamily | GaugeMetricFamily:
    if metric.name not in families:
        kind = CounterMetricFamily if metric.name.endswith("_total") else GaugeMetricFamily
        families[metric.name] = kind(metric.name, metric.help, labels=["topology", *labels])
    return families[metric.name]


class WorkerCollector(Collector):
    """Shows, by topology, the latest snapshot of its worker, or the sum over several.

    `latest` is called at every scrape, in the server's thread.
    """

    def __init__(self, latest: Callable[[], Mapping[str, WorkerStats]]) -> None:
        self._latest = latest

    def collect(self) -> Iterator[Metric]:
        workers = self._latest()
        families: _Families = {}
        for field, metric in _OF_WORKER:
            family = _family(families, metric, *(metric.label or ())[:1])
            for topology, stats in workers.items():
                family.add_metric([topology, *(metric.label or ())[1:]], getattr(stats, field) / metric.divisor)
        for field, metric in _OF_PARTITION:
            family = _family(families, metric, "partition")
            for topology, stats in workers.items():
                for partition in stats.by_partition:
                    value = getattr(partition, field) / metric.divisor
                    if value >= 0:
                        family.add_metric([topology, str(partition.partition)], value)
        yield from families.values()


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

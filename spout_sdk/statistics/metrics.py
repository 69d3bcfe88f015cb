"""Prometheus metrics of the processes of a topology's components.

The tables below, with the `Counts` of a process, are the complete list. Nothing is counted for metrics alone: a scrape
reads the latest snapshots. `acker run --metrics-port` serves them; your own program that runs a `ComponentRunner` can
serve them, too:

    latest = Stats("split")  # kept up to date by on_stats
    REGISTRY.register(ComponentCollector(topology.manifest, lambda: [latest]))
    start_http_server(9464, "127.0.0.1")
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from kafka_clients.metrics import families
from spout_sdk.statistics.state_stats import StateStats
from spout_sdk.statistics.stats import PREFIX, Counts, Stats
from tuple_tree.manifest import Manifest
from tuple_tree.messages import FailReason
from tuple_tree.process_stats import metric_fields

_HISTOGRAMS: Final = {f"{PREFIX}{each.name}_seconds": each for each in fields(Counts) if "powers" in each.metadata}
_FAILED: Final = f"{PREFIX}failed_total"
_USER: Final = f"{PREFIX}user_total"
# max_spout_pending times the owned tasks: a spout whose pending reaches it waits for its bolts.
_MAX_PENDING: Final = f"{PREFIX}max_pending"
METRIC_NAMES: Final = (
    *(each.name for kind in (Stats, StateStats) for each in metric_fields(kind).values()),
    *_HISTOGRAMS,
    *(_FAILED, _USER, _MAX_PENDING),
)
_LABELS: Final = ("topology", "component")


class ComponentCollector(Collector):
    """Collects metrics from the latest snapshots of components.

    Args:
        latest: returns the latest snapshot of each component; called at every scrape, in the server's thread.
    """

    def __init__(self, manifest: Manifest, latest: Callable[[], Iterable[Stats]]) -> None:
        self._topology = manifest.topology
        self._max_pending = {spout.name: spout.max_pending for spout in manifest.spouts}
        self._latest = latest

    def collect(self) -> Iterator[Metric]:
        """Yields a metric family for each name in `METRIC_NAMES`."""
        snapshots = [((self._topology, stats.component), stats) for stats in self._latest()]
        yield from families(Stats, _LABELS, snapshots).values()
        states = [(labels, stats.state) for labels, stats in snapshots if stats.state is not None]
        yield from families(StateStats, _LABELS, states).values()
        failed = CounterMetricFamily(
            _FAILED, "Trees of a spout, inputs of a bolt that failed.", labels=[*_LABELS, "reason"]
        )
        user = CounterMetricFamily(_USER, "Counters of the component's code.", labels=[*_LABELS, "counter"])
        limit = GaugeMetricFamily(_MAX_PENDING, "How many trees may be open in these processes.", labels=_LABELS)
        for labels, stats in snapshots:
            max_pending = self._max_pending.get(stats.component)
            if max_pending is not None:
                limit.add_metric(labels, max_pending * len(stats.tasks))
            # Zeros are exported, too, because a rate begins with the first sample.
            possible = [FailReason.FAILED] if max_pending is None else FailReason
            for reason, count in {**{one.word: 0 for one in possible}, **stats.failed}.items():
                failed.add_metric([*labels, reason], count)
            for name, count in stats.counters.items():
                user.add_metric([*labels, name], count)
        yield from (failed, user, limit)
        for name, each in _HISTOGRAMS.items():
            shown = each.metadata
            buckets = HistogramMetricFamily(name, shown["help"], labels=_LABELS)
            for labels, stats in snapshots:
                if (stats.component in self._max_pending) == shown["of_spouts"]:
                    latency = getattr(stats, each.name)
                    bounds = [(str(2**power / 1e6), float(latency.shorter_than(power))) for power in shown["powers"]]
                    buckets.add_metric(labels, [*bounds, ("+Inf", float(latency.total))], latency.seconds)
            yield buckets

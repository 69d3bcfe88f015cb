"""What the processes of a topology's components show to Prometheus.

The tables below, with the `Counts` of a process, are the complete list. Nothing is counted for them: a scrape reads the
latest snapshots. `acker run --metrics-port` serves them; a program of one's own that runs a `ComponentRunner` can too:

    latest = Stats("split")  # kept up to date by on_stats
    REGISTRY.register(ComponentCollector(topology.manifest, lambda: [latest]))
    start_http_server(9464, "127.0.0.1")
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from spout_sdk.statistics.counters import Counts
from spout_sdk.statistics.stats import Stats
from tuple_tree.latency import LatencyHistogram
from tuple_tree.manifest import Manifest
from tuple_tree.messages import FailReason


@dataclass(frozen=True, slots=True)
class Shown:
    """A gauge or a counter of a component: its name, its help text, and its value."""

    name: str
    help: str
    value: Callable[[Stats], float]


GAUGES: Final = (
    # Fewer than were started: some are down, or have just started.
    Shown("acker_component_processes", "Processes that it runs in here.", lambda stats: len(stats.pids)),
    # Over all processes, the sum has to be the component's number of tasks.
    Shown("acker_component_tasks_owned", "Tasks that these processes own.", lambda stats: len(stats.tasks)),
    Shown(
        "acker_component_pending",
        "Open trees of a spout; inputs of a bolt that are neither acked nor failed.",
        attrgetter("pending"),
    ),
    # It holds the committed offset: what lies behind it is executed again after a restart.
    Shown(
        "acker_component_oldest_input_seconds",
        "How long the oldest input of a bolt that is neither acked nor failed is open.",
        attrgetter("oldest_input_seconds"),
    ),
    # Records wait and none is executed, no outcome comes for open trees, or no broker answers; /health judges by it.
    Shown(
        "acker_component_stalled_seconds",
        "For how long there has been work of which nothing was done; 0 where all is done.",
        attrgetter("stalled_seconds"),
    ),
)
COUNTERS: Final = tuple(
    Shown(f"acker_component_{each.name}_total", each.metadata["help"], attrgetter(each.name))
    for each in fields(Counts)
    if "help" in each.metadata
)

# Distinguished by one more label.
FAILED: Final = "acker_component_failed_total"
"""Label `reason`: `failed` by a bolt, `timeout`, `too_old`, and `lost` where no outcome came at all."""
USER: Final = "acker_component_user_total"
"""Label `counter`: what `TaskContext.count` counts."""

# Of spouts only.
MAX_PENDING: Final = "acker_component_max_pending"
"""max_spout_pending times the tasks owned: a spout whose pending comes up to it waits for its bolts."""
LATENCY: Final = "acker_component_complete_latency_seconds"
"""From emit to ack; a histogram."""

# Of bolts only; both histograms, of one call in 20.
EXECUTE_LATENCY: Final = "acker_component_execute_latency_seconds"
"""Of `execute`."""
PROCESS_LATENCY: Final = "acker_component_process_latency_seconds"
"""From the call of `execute` to the ack."""

# Bounds are powers of two of a microsecond, where the SDK's own buckets end.
_SHORT_POWERS: Final = range(4, 24)  # what a bolt takes: 16 µs to 8.4 s
_LATENCY_POWERS: Final = range(10, 28)  # 1.024 ms to 134 s
_LABELS: Final = ("topology", "component")


class ComponentCollector(Collector):
    """Shows the latest snapshots of components.

    Args:
        manifest: of their topology.
        latest: returns those snapshots, one a component; called at every scrape, in the server's thread.
    """

    def __init__(self, manifest: Manifest, latest: Callable[[], Iterable[Stats]]) -> None:
        self._topology = manifest.topology
        self._max_pending = {spout.name: spout.max_pending for spout in manifest.spouts}
        self._latest = latest

    def collect(self) -> Iterator[Metric]:
        """One family for each name above."""
        components = list(self._latest())
        spouts = [stats for stats in components if stats.component in self._max_pending]
        bolts = [stats for stats in components if stats.component not in self._max_pending]
        for family, table in ((GaugeMetricFamily, GAUGES), (CounterMetricFamily, COUNTERS)):
            for shown in table:
                metric = family(shown.name, shown.help, labels=_LABELS)
                for stats in components:
                    metric.add_metric(self._labels(stats), shown.value(stats))
                yield metric
        failed = CounterMetricFamily(
            FAILED, "Trees of a spout, inputs of a bolt that failed.", labels=[*_LABELS, "reason"]
        )
        user = CounterMetricFamily(USER, "Counters of the component's own.", labels=[*_LABELS, "counter"])
        limit = GaugeMetricFamily(MAX_PENDING, "How many trees may be open in these processes.", labels=_LABELS)
        for stats in components:
            # Those that have not happened as well: a rate begins with the first.
            possible = FailReason if stats.component in self._max_pending else [FailReason.FAILED]
            for reason, count in {**{one.word: 0 for one in possible}, **stats.failed}.items():
                failed.add_metric([*self._labels(stats), reason], count)
            for name, count in stats.counters.items():
                user.add_metric([*self._labels(stats), name], count)
        for stats in spouts:
            limit.add_metric(self._labels(stats), self._max_pending[stats.component] * len(stats.tasks))
        yield from (failed, user, limit)
        yield self._histogram(LATENCY, "From emit to ack.", spouts, "complete_latency", _LATENCY_POWERS)
        yield self._histogram(
            EXECUTE_LATENCY, "Of execute; of one call in 20.", bolts, "execute_latency", _SHORT_POWERS
        )
        yield self._histogram(
            PROCESS_LATENCY, "From execute to ack; of one call in 20.", bolts, "process_latency", _SHORT_POWERS
        )

    def _labels(self, stats: Stats) -> list[str]:
        return [self._topology, stats.component]

    def _histogram(self, name: str, text: str, of: list[Stats], attribute: str, powers: range) -> Metric:
        family = HistogramMetricFamily(name, text, labels=_LABELS)
        for stats in of:
            latency: LatencyHistogram = getattr(stats, attribute)
            buckets = [(str(2**power / 1e6), float(latency.shorter_than(power))) for power in powers]
            family.add_metric(self._labels(stats), [*buckets, ("+Inf", float(latency.total))], latency.seconds)
        return family

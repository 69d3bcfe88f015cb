"""What the processes of a topology's components show to Prometheus.

The tables below, with the `Counts` of a process, are the complete list. Nothing is counted for them: a scrape reads the
latest snapshots. `acker run --metrics-port` serves them; a program of one's own that runs a `ComponentRunner` can too:

    latest = Stats("split")  # kept up to date by on_stats
    REGISTRY.register(ComponentCollector(topology.manifest, lambda: [latest]))
    start_http_server(9464, "127.0.0.1")
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from operator import attrgetter
from typing import Final, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from spout_sdk.statistics.counters import Counts
from spout_sdk.statistics.stats import Stats
from tuple_tree.latency import LatencyHistogram
from tuple_tree.manifest import Manifest
from tuple_tree.messages import FailReason


class Shown(NamedTuple):
    """A gauge or a counter of all components."""

    name: str
    help: str
    value: Callable[[Stats], float]


class Histogram(NamedTuple):
    """A latency of spouts, or of bolts; the bounds of its buckets are powers of two of a microsecond, as in `Stats`."""

    name: str
    help: str
    value: Callable[[Stats], LatencyHistogram]
    of_spouts: bool
    powers: range


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
_SHORT: Final = range(4, 24)  # what a bolt takes: 16 µs to 8.4 s
HISTOGRAMS: Final = tuple(
    Histogram(f"acker_component_{name}_latency_seconds", text, attrgetter(f"{name}_latency"), of_spouts, powers)
    for name, text, of_spouts, powers in (
        ("complete", "From emit to ack.", True, range(10, 28)),  # 1.024 ms to 134 s
        ("execute", "Of execute; of one call in 20.", False, _SHORT),
        ("process", "From execute to ack; of one call in 20.", False, _SHORT),
    )
)
FAILED: Final = "acker_component_failed_total"
USER: Final = "acker_component_user_total"
# max_spout_pending times the tasks owned: a spout whose pending comes up to it waits for its bolts.
MAX_PENDING: Final = "acker_component_max_pending"
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
        """A family for each name in the tables, and those with one more label or of spouts only."""
        snapshots = [((self._topology, stats.component), stats) for stats in self._latest()]
        for family, table in ((GaugeMetricFamily, GAUGES), (CounterMetricFamily, COUNTERS)):
            for shown in table:
                metric = family(shown.name, shown.help, labels=_LABELS)
                for labels, stats in snapshots:
                    metric.add_metric(labels, shown.value(stats))
                yield metric
        failed = CounterMetricFamily(
            FAILED, "Trees of a spout, inputs of a bolt that failed.", labels=[*_LABELS, "reason"]
        )
        user = CounterMetricFamily(USER, "Counters of the component's own.", labels=[*_LABELS, "counter"])
        limit = GaugeMetricFamily(MAX_PENDING, "How many trees may be open in these processes.", labels=_LABELS)
        for labels, stats in snapshots:
            max_pending = self._max_pending.get(stats.component)
            if max_pending is not None:
                limit.add_metric(labels, max_pending * len(stats.tasks))
            # Those that have not happened as well: a rate begins with the first.
            possible = [FailReason.FAILED] if max_pending is None else FailReason
            for reason, count in {**{one.word: 0 for one in possible}, **stats.failed}.items():
                failed.add_metric([*labels, reason], count)
            for name, count in stats.counters.items():
                user.add_metric([*labels, name], count)
        yield from (failed, user, limit)
        for histogram in HISTOGRAMS:
            buckets = HistogramMetricFamily(histogram.name, histogram.help, labels=_LABELS)
            for labels, stats in snapshots:
                if (stats.component in self._max_pending) == histogram.of_spouts:
                    latency = histogram.value(stats)
                    bounds = [(str(2**power / 1e6), float(latency.shorter_than(power))) for power in histogram.powers]
                    buckets.add_metric(labels, [*bounds, ("+Inf", float(latency.total))], latency.seconds)
            yield buckets

"""What the processes of a topology's components show to Prometheus.

The tables below are the complete list: the name, what it says, and where in a `Stats` it comes from. Nothing is counted
for them: a scrape reads the latest snapshots. `acker run --metrics-port` serves them; a program of one's own that runs
a `ComponentRunner` can as well:

    latest = Stats("split")  # kept up to date by on_stats
    REGISTRY.register(ComponentCollector(topology.manifest, lambda: [latest]))
    start_http_server(9464, "127.0.0.1")
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from spout_sdk.statistics.stats import Stats
from tuple_tree.latency import LatencyHistogram
from tuple_tree.manifest import Manifest
from tuple_tree.messages import FailReason


@dataclass(frozen=True, slots=True)
class Shown:
    """A gauge or a counter of a component.

    Attributes:
        name: of the metric.
        says: its help text.
        value: of the component.
    """

    name: str
    says: str
    value: Callable[[Stats], float]


GAUGES: Final = (
    # Fewer than were started: some are down, or too young to have said anything.
    Shown("acker_component_processes", "Processes that it runs in here.", lambda stats: len(stats.pids)),
    # Over all processes, the sum has to be the component's number of tasks.
    Shown("acker_component_tasks_owned", "Tasks that these processes own.", lambda stats: len(stats.tasks)),
    Shown(
        "acker_component_pending",
        "Open trees of a spout; inputs of a bolt that are neither acked nor failed.",
        lambda stats: stats.pending,
    ),
    # It holds the committed offset: what lies behind it is executed again after a restart.
    Shown(
        "acker_component_oldest_input_seconds",
        "How long the oldest input of a bolt that is neither acked nor failed is open.",
        lambda stats: stats.oldest_input_seconds,
    ),
    # Records wait and none is executed, no outcome comes for open trees, or no broker answers; /health judges by it.
    Shown(
        "acker_component_stalled_seconds",
        "For how long there has been work of which nothing was done; 0 where all is done.",
        lambda stats: stats.stalled_seconds,
    ),
)
COUNTERS: Final = (
    Shown("acker_component_emitted_total", "Calls of emit.", lambda stats: stats.emitted),
    # One a recipient, so a stream with two subscribers transfers twice what it emits.
    Shown("acker_component_transferred_total", "Tuples that were sent.", lambda stats: stats.transferred),
    Shown("acker_component_executed_total", "Tuples that were handed to a bolt.", lambda stats: stats.executed),
    Shown(
        "acker_component_acked_total", "Trees of a spout, inputs of a bolt that were acked.", lambda stats: stats.acked
    ),
    # Late outcomes: of a tree that was given up, or of a task that has moved since.
    Shown(
        "acker_component_ignored_notices_total",
        "Outcomes of trees that the spout does not hold.",
        lambda stats: stats.ignored_notices,
    ),
    Shown(
        "acker_component_errors_total",
        "Exceptions of execute, and errors that were reported.",
        lambda stats: stats.errors,
    ),
    # A spout that waits for its bolts nearly all of the time is not what limits the topology.
    Shown(
        "acker_component_throttled_seconds_total",
        "How long spout tasks waited because max_spout_pending trees were open.",
        lambda stats: stats.throttled_seconds,
    ),
    Shown("acker_component_dead_letters_total", "Records that could not be used.", lambda stats: stats.dead_letters),
    # Their trees fail at once, so these are replays, not losses.
    Shown("acker_component_undelivered_total", "Tuples that Kafka did not take.", lambda stats: stats.undelivered),
    Shown("acker_component_transactions_total", "Transactions that were committed.", lambda stats: stats.transactions),
    # A few whenever processes join or leave; many, where nothing of the kind happens, are work for nothing.
    Shown(
        "acker_component_rollbacks_total",
        "How often what was not committed was undone, and done again.",
        lambda stats: stats.rollbacks,
    ),
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

_SHORT_POWERS: Final = range(4, 24)
"""Bounds of what a bolt takes: 16 µs to 8.4 s."""

_LATENCY_POWERS: Final = range(10, 28)
"""Its bounds are powers of two of a microsecond, where the SDK's own buckets end: 1.024 ms to 134 s."""


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
        labels = ["topology", "component"]
        for shown in GAUGES:
            gauge = GaugeMetricFamily(shown.name, shown.says, labels=labels)
            for stats in components:
                gauge.add_metric([self._topology, stats.component], shown.value(stats))
            yield gauge
        for shown in COUNTERS:
            counter = CounterMetricFamily(shown.name, shown.says, labels=labels)
            for stats in components:
                counter.add_metric([self._topology, stats.component], shown.value(stats))
            yield counter
        yield self._failed(components)
        yield self._user(components)
        yield from self._of_spouts([stats for stats in components if stats.component in self._max_pending])
        yield from self._of_bolts([stats for stats in components if stats.component not in self._max_pending])

    def _failed(self, components: list[Stats]) -> Metric:
        failed = CounterMetricFamily(
            FAILED, "Trees of a spout, inputs of a bolt that failed.", labels=["topology", "component", "reason"]
        )
        for stats in components:
            # Those that have not happened as well: a rate begins with the first.
            possible = FailReason if stats.component in self._max_pending else [FailReason.FAILED]
            for reason, count in {**{one.word: 0 for one in possible}, **stats.failed}.items():
                failed.add_metric([self._topology, stats.component, reason], count)
        return failed

    def _user(self, components: list[Stats]) -> Metric:
        user = CounterMetricFamily(
            USER, "Counters of the component's own.", labels=["topology", "component", "counter"]
        )
        for stats in components:
            for name, count in stats.counters.items():
                user.add_metric([self._topology, stats.component, name], count)
        return user

    def _of_spouts(self, spouts: list[Stats]) -> Iterator[Metric]:
        labels = ["topology", "component"]
        limit = GaugeMetricFamily(MAX_PENDING, "How many trees may be open in these processes.", labels=labels)
        latency = HistogramMetricFamily(LATENCY, "From emit to ack.", labels=labels)
        for stats in spouts:
            values = [self._topology, stats.component]
            limit.add_metric(values, self._max_pending[stats.component] * len(stats.tasks))
            _add(latency, values, stats.complete_latency, _LATENCY_POWERS)
        yield limit
        yield latency

    def _of_bolts(self, bolts: list[Stats]) -> Iterator[Metric]:
        labels = ["topology", "component"]
        execute = HistogramMetricFamily(EXECUTE_LATENCY, "Of execute; of one call in 20.", labels=labels)
        process = HistogramMetricFamily(PROCESS_LATENCY, "From execute to ack; of one call in 20.", labels=labels)
        for stats in bolts:
            values = [self._topology, stats.component]
            _add(execute, values, stats.execute_latency, _SHORT_POWERS)
            _add(process, values, stats.process_latency, _SHORT_POWERS)
        yield execute
        yield process


def _add(family: HistogramMetricFamily, values: list[str], latency: LatencyHistogram, powers: range) -> None:
    bounded = [(str(2**power / 1e6), float(latency.shorter_than(power))) for power in powers]
    family.add_metric(values, [*bounded, ("+Inf", float(latency.total))], latency.seconds)

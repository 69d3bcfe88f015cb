"""What a driver shows to Prometheus: the counts of its component, under the names of the SDK, and its micro-batches."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from pyspark.sql.streaming.listener import StreamingQueryProgress

from spark_jobs.progress import unread
from tuple_tree.latency import LatencyHistogram

_COUNTED: Final = {
    "emitted": "Rows or messages that were emitted.",
    "transferred": "Tuples that were sent.",
    "executed": "Inputs of a bolt.",
    "acked": "Trees of a spout, inputs of a bolt that were acked.",
    "ignored_notices": "Outcomes of trees that the spout does not hold.",
    "dead_letters": "Records that could not be used.",
}
_POWERS: Final = range(10, 28)
"""Bounds of the complete latency, powers of two of a microsecond: 1.024 ms to 134 s."""


class QueryCollector(Collector):
    """Shows a query; register it with a `prometheus_client` registry.

    Args:
        topology: its name.
        stats: the counts; called at every scrape, in the server's thread.
        progress: Spark's account of the last micro-batch.
    """

    def __init__(
        self,
        topology: str,
        stats: Callable[[], Mapping[str, Any]],
        progress: Callable[[], StreamingQueryProgress | None],
    ) -> None:
        self._topology = topology
        self._stats = stats
        self._progress = progress

    def collect(self) -> Iterator[Metric]:
        """One family for each count that is known."""
        stats, progress = self._stats(), self._progress()
        names, values = ["topology", "component"], [self._topology, stats["component"]]
        for name, says in _COUNTED.items():
            if name in stats:
                counter = CounterMetricFamily(f"acker_component_{name}_total", says, labels=names)
                counter.add_metric(values, stats[name])
                yield counter
        failed = CounterMetricFamily(
            "acker_component_failed_total", "Trees of a spout, rows of a bolt that failed.", labels=[*names, "reason"]
        )
        for reason, count in stats["failed"].items():
            failed.add_metric([*values, reason], count)
        yield failed
        gauges = {"acker_component_pending": ("Trees of a spout that are open.", stats.get("pending"))}
        if progress is not None:
            seconds = progress.durationMs.get("triggerExecution", 0) / 1000
            gauges |= {
                "acker_spark_batch_id": ("The last micro-batch.", progress.batchId),
                "acker_spark_batch_rows": ("Records of the last micro-batch.", progress.numInputRows),
                "acker_spark_batch_seconds": ("How long the last micro-batch took.", seconds),
                "acker_spark_unread_records": ("Records behind the last micro-batch.", unread(progress)),
            }
        for name, (says, value) in gauges.items():
            if value is not None:
                gauge = GaugeMetricFamily(name, says, labels=names)
                gauge.add_metric(values, value)
                yield gauge
        if "pending" in stats:
            latency = LatencyHistogram(stats["complete_latency"])
            family = HistogramMetricFamily(
                "acker_component_complete_latency_seconds", "From emit to ack.", labels=names
            )
            bounds = [(str(2**power / 1e6), float(latency.shorter_than(power))) for power in _POWERS]
            family.add_metric(values, [*bounds, ("+Inf", float(latency.total))], latency.seconds)
            yield family

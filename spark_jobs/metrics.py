"""What a driver shows to Prometheus: the counts of its component, under the names of the SDK, and its micro-batches."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from pyspark.sql.streaming.listener import StreamingQueryProgress

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
_LABELS: Final = ["topology", "component"]


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
        labels = [self._topology, stats["component"]]
        for name, documentation in _COUNTED.items():
            if name in stats:
                counter = CounterMetricFamily(f"acker_component_{name}_total", documentation, labels=_LABELS)
                counter.add_metric(labels, stats[name])
                yield counter
        failed = CounterMetricFamily(
            "acker_component_failed_total", "Trees of a spout, rows of a bolt that failed.", labels=[*_LABELS, "reason"]
        )
        for reason, count in stats["failed"].items():
            failed.add_metric([*labels, reason], count)
        yield failed
        gauges = {"acker_component_pending": ("Trees of a spout that are open.", stats.get("pending"))}
        if progress is not None:
            seconds = progress.durationMs.get("triggerExecution", 0) / 1000
            gauges |= {
                "acker_spark_batch_id": ("The last micro-batch.", progress.batchId),
                "acker_spark_batch_rows": ("Records of the last micro-batch.", progress.numInputRows),
                "acker_spark_batch_seconds": ("How long the last micro-batch took.", seconds),
                "acker_spark_unread_records": ("Records behind the last micro-batch.", unread_records(progress)),
            }
        for name, (documentation, value) in gauges.items():
            if value is not None:
                gauge = GaugeMetricFamily(name, documentation, labels=_LABELS)
                gauge.add_metric(labels, value)
                yield gauge
        if "pending" in stats:
            latency = LatencyHistogram(stats["complete_latency"])
            family = HistogramMetricFamily(
                "acker_component_complete_latency_seconds", "From emit to ack.", labels=_LABELS
            )
            bounds = [(str(2**power / 1e6), float(latency.shorter_than(power))) for power in _POWERS]
            family.add_metric(labels, [*bounds, ("+Inf", float(latency.total))], latency.seconds)
            yield family


def unread_records(progress: StreamingQueryProgress) -> int | None:
    """Records that lay behind the end of a micro-batch when Spark planned it; None if that is not known."""
    source: Mapping[str, Any] = next(iter(json.loads(progress.json)["sources"]), {})
    latest, end = source.get("latestOffset"), source.get("endOffset")
    if not (isinstance(latest, dict) and isinstance(end, dict)):
        return None
    return sum(
        max(0, int(offset) - int(end.get(topic, {}).get(partition, 0)))
        for topic, partitions in latest.items()
        for partition, offset in partitions.items()
    )

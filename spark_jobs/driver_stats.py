"""Counters of the writes of micro-batches; a driver publishes them in `{topology}.stats` and to Prometheus.

A failure to publish is logged, and does not end the query.
"""

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from pyspark.sql.streaming.listener import StreamingQueryProgress

from kafka_clients.client_settings import for_admin, for_group
from kafka_clients.group_consumer import GroupConsumer
from kafka_clients.librdkafka_bugs import forgettable
from kafka_clients.repeated_lines import get_logger
from kafka_clients.stats_publisher import LAST_SECONDS, PUBLISH_SECONDS, StatsPublisher, producer_settings
from tuple_tree.components import BoltManifest, Component
from tuple_tree.latency import LatencyHistogram
from tuple_tree.messages import FailReason
from tuple_tree.names import component_group

logger = get_logger("spark_jobs.stats")

_LOOK_SECONDS: Final = PUBLISH_SECONDS / 2
_COUNTERS: Final = {
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

EndOffsets = Mapping[str, Mapping[str, int]]
"""Topic → partition → offset."""


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result of a micro-batch.

    Attributes:
        rows: inputs.
        tuples: deliveries, one for each recipient of each row.
        acks: anchors of the inputs, each with an entry in the ack log.
        failed: rows that `transform` marked, or that could not be encoded.
        dead: inputs that could not be used.
        seconds: how long writing took.
        emitted: rows that were emitted.
        acked: inputs of a bolt that were acked; None where rows failed, and it is not known how many inputs these are.
    """

    rows: int
    tuples: int
    acks: int
    failed: int
    dead: int
    seconds: float
    emitted: int
    acked: int | None = None


class Tally:
    """The totals of a component; thread-safe.

    A micro-batch counts when it is written. One that a driver wrote, and died before Spark noted its end, is written
    and counted by the next driver as well.
    """

    def __init__(self, component: Component) -> None:
        self._component = component
        self._lock = threading.Lock()
        self._totals = Counter(emitted=0, transferred=0, executed=0, dead_letters=0, acked=0, failed=0)
        self._knows_acked = True

    def add(self, result: BatchResult) -> None:
        with self._lock:
            self._totals.update(
                emitted=result.emitted,
                transferred=result.tuples,
                executed=result.rows - result.dead,
                dead_letters=result.dead,
                acked=result.acked or 0,
                failed=result.failed,
            )
            self._knows_acked &= result.acked is not None

    def stats(self) -> dict[str, Any]:
        """The known counts in the form of `spout_sdk.statistics.Stats`; `failed` counts rows of the result."""
        with self._lock:
            totals = dict(self._totals)
            if not self._knows_acked:
                del totals["acked"]
        failed = totals.pop("failed")
        return {
            "component": self._component.name,
            "pids": [os.getpid()],
            # One driver does the work of all tasks.
            "tasks": list(range(self._component.tasks)),
            # Readers of earlier versions need latencies, also where none are measured.
            "complete_latency": {},
            "execute_latency": {},
            "process_latency": {},
            **totals,
            "failed": {FailReason.FAILED.word: failed} if failed else {},
        }


class DriverStats(Collector):
    """A thread that publishes once a second until the component has ended; and a collector for Prometheus.

    The thread is not that which writes: a micro-batch may take minutes, and a driver that publishes nothing for ten
    seconds is shown as gone. Of a bolt, it commits where the last micro-batch ended, so that Kafka's tools show its
    lag; the bolt itself goes by its checkpoint. `counts`, `progress` and `is_running` are called in this thread too.
    """

    def __init__(
        self,
        kafka: Mapping[str, Any],
        topology: str,
        component: Component,
        counts: Callable[[], Mapping[str, Any]],
        progress: Callable[[], StreamingQueryProgress | None],
        is_running: Callable[[], bool],
    ) -> None:
        self._kafka = kafka
        self._labels = (topology, component.name)
        self._group = component_group(topology, component.name)
        self._is_bolt = isinstance(component, BoltManifest)
        self._counts = counts
        self._progress = progress
        self._is_running = is_running
        self._began = time.monotonic()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"stats of {self._group}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Publishes the last record, if the thread has not done so by itself; waits two seconds at most."""
        self._ending.set()
        self._thread.join(2 * LAST_SECONDS)

    def _run(self) -> None:
        try:
            # The clients are made here, so that invalid settings do not end the query either.
            producer = Producer(producer_settings(self._kafka))
            admin = forgettable(AdminClient)({**for_admin(self._kafka), "log_level": 2})
            topology, component = self._labels
            publisher = StatsPublisher(topology, "component", component, producer, admin, self._began)
            # Not by the AdminClient: where a request to a coordinator fails, librdkafka may abort the process
            # (https://github.com/confluentinc/librdkafka/issues/4605).
            settings = {**for_group(self._kafka, self._group), "log_level": 2}
            consumer = GroupConsumer(settings, f"{self._group}, for its lag,")
            while not self._ending.wait(_LOOK_SECONDS) and self._is_running():
                publisher.look(time.monotonic(), self._counts)
                consumer.commit_changed(self._offsets())
                consumer.serve()
            publisher.end(time.monotonic(), self._counts())
            if offsets := self._offsets():
                consumer.commit_and_wait(offsets, LAST_SECONDS)
            consumer.close()
        except Exception as error:  # noqa: BLE001 - whatever it is, the query does not need it
            logger.warning("acker top and the dashboard will not show %s: %s", self._group, error)

    def _offsets(self) -> list[TopicPartition]:
        """Where the last micro-batch of a bolt ended."""
        progress = self._progress()
        ends = end_offsets(progress) if progress is not None and self._is_bolt else None
        return [
            TopicPartition(topic, int(number), offset)
            for topic, partitions in (ends or {}).items()
            for number, offset in partitions.items()
        ]

    def collect(self) -> Iterator[Metric]:
        """One family for each count that is known."""
        stats, progress = self._counts(), self._progress()
        shown: list[tuple[Any, str, str, Any]] = [
            (CounterMetricFamily, f"acker_component_{name}_total", documentation, stats.get(name))
            for name, documentation in _COUNTERS.items()
        ]
        gauges = [("component_pending", "Trees of a spout that are open.", stats.get("pending"))]
        if progress is not None:
            seconds = progress.durationMs.get("triggerExecution", 0) / 1000
            gauges += [
                ("spark_batch_id", "The last micro-batch.", progress.batchId),
                ("spark_batch_rows", "Records of the last micro-batch.", progress.numInputRows),
                ("spark_batch_seconds", "How long the last micro-batch took.", seconds),
                ("spark_unread_records", "Records after the last micro-batch.", unread_records(progress)),
            ]
        shown += [(GaugeMetricFamily, f"acker_{name}", documentation, value) for name, documentation, value in gauges]
        for kind, name, documentation, value in shown:
            if value is not None:
                family = kind(name, documentation, labels=_LABELS)
                family.add_metric(self._labels, value)
                yield family
        failed = CounterMetricFamily(
            "acker_component_failed_total", "Trees of a spout, rows of a bolt that failed.", labels=[*_LABELS, "reason"]
        )
        for reason, count in stats["failed"].items():
            failed.add_metric([*self._labels, reason], count)
        yield failed
        if "pending" in stats:
            latency = LatencyHistogram(stats["complete_latency"])
            histogram = HistogramMetricFamily(
                "acker_component_complete_latency_seconds", "From emit to ack.", labels=_LABELS
            )
            bounds = [(str(2**power / 1e6), float(latency.shorter_than(power))) for power in _POWERS]
            histogram.add_metric(self._labels, [*bounds, ("+Inf", float(latency.total))], latency.seconds)
            yield histogram


def end_offsets(progress: StreamingQueryProgress, which: str = "endOffset") -> EndOffsets | None:
    """Where a micro-batch ended, or the `latestOffset`s when Spark planned it; None if that is not known."""
    source: Mapping[str, Any] = next(iter(json.loads(progress.json)["sources"]), {})
    offsets = source.get(which)
    return offsets if isinstance(offsets, dict) else None


def unread_records(progress: StreamingQueryProgress) -> int | None:
    """Records that lay after the end of a micro-batch when Spark planned it; None if that is not known."""
    latest, ends = end_offsets(progress, "latestOffset"), end_offsets(progress)
    if latest is None or ends is None:
        return None
    return sum(
        max(0, int(offset) - int(ends.get(topic, {}).get(partition, 0)))
        for topic, partitions in latest.items()
        for partition, offset in partitions.items()
    )

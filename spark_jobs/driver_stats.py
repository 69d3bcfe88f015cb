"""What a driver publishes: counts in `{topology}.stats` and to Prometheus, and the offsets of a bolt's group.

A failure here is logged, and does not end the query.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from pyspark.sql.streaming.listener import StreamingQueryProgress

from kafka_clients.client_settings import for_admin, for_consumer
from kafka_clients.librdkafka_bugs import forgettable
from kafka_clients.stats_publisher import LAST_SECONDS, PUBLISH_SECONDS, StatsPublisher, producer_settings
from spark_jobs.spout_offsets import commit
from tuple_tree.latency import LatencyHistogram

logger = logging.getLogger("spark_jobs.stats")

_LOOK_SECONDS: Final = PUBLISH_SECONDS / 2
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


class InboxOffsets:
    """Commits where micro-batches ended, so that Kafka's tools show the lag of a bolt, which goes by its checkpoint."""

    def __init__(self, kafka: Mapping[str, Any], group: str) -> None:
        self._settings = {"log_level": 2, **for_consumer(kafka), "group.id": group, "enable.auto.commit": False}
        self._group = group
        self._consumer: Consumer | None = None
        self._ends: Mapping[str, Mapping[str, int]] = {}
        self._committed: Mapping[str, Mapping[str, int]] = {}
        self._failed = False

    def reached(self, ends: Mapping[str, Mapping[str, int]]) -> None:
        """Takes where a micro-batch ended: topic → partition → offset."""
        self._ends = ends

    def commit(self) -> None:
        """Commits new offsets; for one thread. Only the first failure is logged."""
        ends = self._ends
        if ends == self._committed:
            return
        try:
            self._consumer = self._consumer or Consumer(self._settings)
            offsets = [
                TopicPartition(topic, int(number), int(offset))
                for topic, partitions in ends.items()
                for number, offset in partitions.items()
            ]
            commit(self._consumer, offsets)
        except KafkaException as error:
            if not self._failed:
                logger.warning(
                    "the lag of %s will not be shown, its offsets cannot be committed: %s", self._group, error
                )
            self._failed = True
        else:
            self._committed, self._failed = ends, False

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()


class DriverStats:
    """A thread that publishes once a second until the component has ended.

    It is not the thread that writes: a micro-batch may take minutes, and a driver that publishes nothing for ten
    seconds is shown as gone. `counts` and `is_running` are called in the thread; a bolt's offsets are committed there.
    """

    def __init__(
        self,
        kafka: Mapping[str, Any],
        topology: str,
        component: str,
        counts: Callable[[], Mapping[str, Any]],
        is_running: Callable[[], bool],
        inbox: InboxOffsets | None = None,
    ) -> None:
        self.topology = topology
        self.counts = counts
        self._kafka = kafka
        self._component = component
        self._began = time.monotonic()
        self._is_running = is_running
        self._inbox = inbox
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"stats of {topology}.{component}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Publishes the last record, if the thread has not done so by itself; waits two seconds at most."""
        self._ending.set()
        self._thread.join(2 * LAST_SECONDS)

    def _run(self) -> None:
        commit_inbox = self._inbox.commit if self._inbox else lambda: None
        try:
            # The clients are made here, so that invalid settings do not end the query either.
            producer = Producer(producer_settings(self._kafka))
            admin = forgettable(AdminClient)({**for_admin(self._kafka), "log_level": 2})
            publisher = StatsPublisher(self.topology, "component", self._component, producer, admin, self._began)
            while not self._ending.wait(_LOOK_SECONDS) and self._is_running():
                publisher.look(time.monotonic(), self.counts)
                commit_inbox()
            publisher.end(time.monotonic(), self.counts())
            commit_inbox()
        except Exception as error:  # noqa: BLE001 - whatever it is, the query does not need it
            name = f"{self.topology}.{self._component}"
            logger.warning("acker top and the dashboard will not show %s: %s", name, error)
        finally:
            if self._inbox:
                self._inbox.close()


class QueryCollector(Collector):
    """Shows a query; register it with a `prometheus_client` registry."""

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

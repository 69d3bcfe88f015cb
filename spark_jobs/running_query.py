"""A query that runs: its micro-batches, a line in the log about each, and how it is stopped between two of them."""

import logging
import math
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from prometheus_client.registry import Collector
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)
from pyspark.sql.streaming.query import StreamingQuery

from kafka_clients.repeated_lines import get_logger
from spark_jobs.driver_stats import BatchResult, DriverStats, Tally, unread_records
from spark_jobs.errors import SparkJobError, StoppedBetweenBatches
from tuple_tree.components import Component
from tuple_tree.names import component_group

logger = get_logger("spark_jobs.progress")

_LOOK_SECONDS: Final = 0.05
_WAIT_SECONDS: Final = 1.0
_SHORTEST_SECONDS: Final = 0.001
_INTERRUPTION_SECONDS: Final = 30.0
_DELIVERY_SECONDS: Final = 1.0  # from the end of a query to its interruption
_LAST_SECONDS: Final = 2.0
_REMEMBERED: Final = 100


RunBatch = Callable[[DataFrame, int, bytes], BatchResult]
"""Processes the records of a micro-batch, with its id and the query's id as 16 bytes."""


class BatchRunner(StreamingQueryListener):
    """Runs each micro-batch of a component; Spark calls it again, in a thread of its own, when one has ended."""

    def __init__(self, topology: str, component: Component, run: RunBatch) -> None:
        self.topology = topology
        self.component = component
        self.name = component_group(topology, component.name)
        self.tally = Tally(component)
        self.stats: Callable[[], Mapping[str, Any]] = self.tally.stats
        self._run = run
        self._query_id = ""
        self._query: StreamingQuery | None = None
        self._ended = threading.Event()
        self.stopping = threading.Event()
        self.parked = threading.Event()
        self.written: dict[int, BatchResult] = {}
        self.progress: StreamingQueryProgress | None = None
        # Returns what a spout waits for, as a part of the progress line.
        self.outstanding: Callable[[], str | None] = lambda: None

    def start(
        self, spark: SparkSession, read: Mapping[str, str], checkpoint: str, trigger: Mapping[str, Any] | None
    ) -> StreamingQuery:
        """Starts the query, with these options of Spark's Kafka source."""
        records = spark.readStream.format("kafka").options(**read).load()
        writer = records.writeStream.queryName(self.name).option("checkpointLocation", checkpoint)
        if trigger:
            writer = writer.trigger(**trigger)
        self._streams = spark.streams
        self._streams.addListener(self)
        try:
            self._query = writer.foreachBatch(self).start()
        except BaseException:
            self._streams.removeListener(self)
            raise
        return self._query

    def __call__(self, records: DataFrame, batch_id: int) -> None:
        self._query_id = query_id_of(records)
        try:
            if self.stopping.is_set():
                raise StoppedBetweenBatches(f"{self.name} was stopped before micro-batch {batch_id}")
            result = self._run(records, batch_id, uuid.UUID(self._query_id).bytes)
        except StoppedBetweenBatches:
            # Nothing is written yet. Held back until Spark interrupts it, because it takes an error for a failure.
            self.parked.set()
            self._await_interruption(records.sparkSession)
            raise
        self.tally.add(result)
        self.written[batch_id] = result
        self.written.pop(batch_id - _REMEMBERED, None)

    def _await_interruption(self, session: SparkSession) -> None:
        """Raises what Spark does when it interrupts the query; returns if that does not happen.

        `stop` of the query first ends it, then interrupts it once, and then waits for this micro-batch: an interruption
        that something else has taken does not come again.
        """
        end = time.monotonic() + _INTERRUPTION_SECONDS
        while time.monotonic() < end:
            # Only an action of Spark notices the interruption.
            session.range(1).collect()
            # None for a moment, as the first micro-batch may begin while the query is being started.
            if self._query is not None and not self._query.isActive:
                end = min(end, time.monotonic() + _DELIVERY_SECONDS)

    def await_last(self) -> None:
        """Waits until the listener has the last micro-batch of a query that has ended."""
        if self._query_id:
            self._ended.wait(_LAST_SECONDS)

    def end(self) -> None:
        """Removes the listener when the last micro-batch is logged; may be called again."""
        self.await_last()
        self._streams.removeListener(self)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - of Spark
        pass

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - of Spark
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - of Spark
        if str(event.id) == self._query_id:
            self._ended.set()

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - of Spark
        progress = event.progress
        if str(progress.id) != self._query_id:
            return
        self.progress = progress
        result = self.written.get(progress.batchId)
        if result is not None and progress.numInputRows:
            logger.info("%s: batch %d, %s", self.name, progress.batchId, self._line(result, progress))

    def _line(self, result: BatchResult, progress: StreamingQueryProgress) -> str:
        unread, outstanding = unread_records(progress), self.outstanding()
        # By all the time that it took, Spark's own bookkeeping included.
        seconds = progress.durationMs.get("triggerExecution", 0) / 1000 or result.seconds
        parts = [
            f"{result.rows:,} rows in",
            f"{result.rows / max(seconds, 0.001):,.0f} rows/s",
            None if unread is None else f"{unread:,} unread",
            outstanding,
            f"{result.tuples:,} tuples out",
            f"{result.acks:,} acks, {result.failed:,} failed" if outstanding is None else None,
            f"{result.dead:,} dead letters",
            f"{result.seconds:.2f} s",
        ]
        return ", ".join(filter(None, parts))


def query_id_of(records: DataFrame) -> str:
    """The id of the streaming query that a micro-batch belongs to; it lives in the checkpoint."""
    query_id = records.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    if not query_id:
        raise SparkJobError("this DataFrame is not a micro-batch: call this from the function given to foreachBatch")
    return query_id


class RunningQuery:
    """A streaming query of ours.

    It logs a line about each micro-batch.

    Attributes:
        query: Spark's own handle.
        metrics: what it shows to Prometheus, for a registry of yours.
    """

    def __init__(self, runner: BatchRunner, query: StreamingQuery, kafka: Mapping[str, Any]) -> None:
        self.query = query
        self._runner = runner
        self._stats = DriverStats(
            kafka, runner.topology, runner.component, runner.stats, lambda: runner.progress, self._is_active
        )
        self.metrics: Collector = self._stats
        self._stats.start()

    @property
    def progress(self) -> StreamingQueryProgress | None:
        """Spark's account of the last micro-batch."""
        return self._runner.progress or self.query.lastProgress

    def written(self, batch_id: int) -> BatchResult | None:
        """Returns the result of a micro-batch, if it was one of the last hundred of this process."""
        return self._runner.written.get(batch_id)

    def stop(self) -> None:
        """Finishes the micro-batch that runs, commits it, and stops."""
        self._stop()
        self._end()

    def wait(self, seconds: float | None = None) -> bool:
        """Waits until the query has ended.

        Args:
            seconds: no longer than this.

        Returns:
            Whether it has ended.

        Raises:
            StreamingQueryException: if it failed.
        """
        try:
            ended = self._wait(seconds)
        except Exception:
            self._end()
            raise
        if ended:
            self._end()
        return ended

    def _is_active(self) -> bool:
        if self.query.isActive:
            return True
        self._runner.await_last()
        return False

    def _stop(self) -> None:
        py4j = logging.getLogger("py4j.clientserver")
        py4j.addFilter(_is_no_interruption)
        try:
            self._runner.stopping.set()
            # Between two micro-batches either nothing runs, or the next one is held back.
            while self.query.isActive:
                if self._runner.parked.wait(_LOOK_SECONDS) or not self.query.status["isTriggerActive"]:
                    self.query.stop()
        finally:
            py4j.removeFilter(_is_no_interruption)

    def _end(self) -> None:
        self._runner.end()
        self._stats.end()

    def _wait(self, seconds: float | None) -> bool:
        end = math.inf if seconds is None else time.monotonic() + seconds
        try:
            # Java waits without heeding signals, so never for long; it takes fractions.
            while not self.query.awaitTermination(max(_SHORTEST_SECONDS, min(_WAIT_SECONDS, end - time.monotonic()))):  # type: ignore[arg-type]
                if time.monotonic() >= end:
                    return False
            return True
        except StreamingQueryException:
            if self._runner.stopping.is_set() and StoppedBetweenBatches.__name__ in str(self.query.exception()):
                return True
            raise


def _is_no_interruption(record: logging.LogRecord) -> bool:
    """Filters out what py4j logs about the micro-batch that is interrupted on purpose."""
    return "executing the Python Proxy" not in record.getMessage()

"""A query that runs: its progress, and how it is stopped between two micro-batches."""

import logging
import math
import threading
import time
import uuid
from collections.abc import Callable
from typing import Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spark_jobs.driver_stats import DriverStats
from spark_jobs.errors import SparkJobError
from spark_jobs.metrics import QueryCollector
from spark_jobs.micro_batch import BatchResult
from spark_jobs.progress import ProgressListener

_LOOK_SECONDS: Final = 0.05
_WAIT_SECONDS: Final = 1.0
_SHORTEST_SECONDS: Final = 0.001
_INTERRUPTION_SECONDS: Final = 30.0
_LAST_SECONDS: Final = 2.0
_REMEMBERED: Final = 100

RunBatch = Callable[[DataFrame, int, bytes], BatchResult]


class StoppedBetweenBatches(SparkJobError):  # noqa: N818 - it ends a query, and is no failure
    """Ends a query before a micro-batch; what that would have processed is processed after the next start."""


class BatchRunner:
    """What Spark calls for each micro-batch.

    Args:
        name: of the query, for logs.
        run: processes a micro-batch.
    """

    def __init__(self, name: str, run: RunBatch) -> None:
        self.name = name
        self._run = run
        self.stopping = threading.Event()
        self.parked = threading.Event()
        self.written: dict[int, BatchResult] = {}
        self.listener = ProgressListener(name, self.written)

    def __call__(self, records: DataFrame, batch_id: int) -> None:
        """Processes the records of a micro-batch."""
        if self.stopping.is_set():
            self._await_interruption(records)
            raise StoppedBetweenBatches(f"{self.name} was stopped before micro-batch {batch_id}")
        query_id = self.listener.query_id = query_id_of(records)
        session = uuid.UUID(query_id).bytes
        try:
            self.written[batch_id] = self._run(records, batch_id, session)
        except StoppedBetweenBatches:
            # It had written nothing yet: as good as held back, and Spark must not take this for a failure either.
            self._await_interruption(records)
            raise
        self.written.pop(batch_id - _REMEMBERED, None)

    def start(self, writer: DataStreamWriter, spark: SparkSession) -> StreamingQuery:
        """Starts the query."""
        self._streams = spark.streams
        self._streams.addListener(self.listener)
        try:
            return writer.foreachBatch(self).start()
        except BaseException:
            self._streams.removeListener(self.listener)
            raise

    def end(self) -> None:
        """Stops to listen, once the last micro-batch is logged; may be called again."""
        if self.listener.query_id:
            self.listener.ended.wait(_LAST_SECONDS)
        self._streams.removeListener(self.listener)

    def _await_interruption(self, records: DataFrame) -> None:
        """Holds the micro-batch back until Spark interrupts it, which it does not take for a failure then."""
        end = time.monotonic() + _INTERRUPTION_SECONDS
        self.parked.set()
        while time.monotonic() < end:
            # Only an action of Spark notices the interruption.
            records.sparkSession.range(1).collect()


class _Quiet(logging.Filter):
    """Drops what py4j says of the micro-batch that was interrupted on purpose."""

    def filter(self, record: logging.LogRecord) -> bool:
        return "executing the Python Proxy" not in record.getMessage()


def query_id_of(records: DataFrame) -> str:
    """The id of the streaming query that hands out a micro-batch; it lives in the checkpoint.

    Raises:
        SparkJobError: if no streaming query does.
    """
    query_id = records.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    if not query_id:
        raise SparkJobError("this DataFrame is no micro-batch: call this from the function given to foreachBatch")
    return query_id


class RunningQuery:
    """A streaming query of ours.

    It logs a line about each micro-batch.

    Attributes:
        query: Spark's own handle.
        metrics: what it shows to Prometheus, for a registry of yours.
    """

    def __init__(self, query: StreamingQuery, runner: BatchRunner, stats: DriverStats) -> None:
        self.query = query
        self._runner = runner
        self._stats = stats
        self.metrics = QueryCollector(stats.topology, stats.counts, lambda: self.progress)

    @property
    def progress(self) -> StreamingQueryProgress | None:
        """Spark's account of the last micro-batch."""
        return self._runner.listener.progress or self.query.lastProgress

    def written(self, batch_id: int) -> BatchResult | None:
        """What a micro-batch has written, if it was one of the last hundred of this process."""
        return self._runner.written.get(batch_id)

    def stop(self) -> None:
        """Finishes the micro-batch that runs, commits it, and stops."""
        self._stop()
        self._end()

    def _end(self) -> None:
        self._stats.end()
        self._runner.end()

    def _stop(self) -> None:
        py4j, quiet = logging.getLogger("py4j.clientserver"), _Quiet()
        py4j.addFilter(quiet)
        try:
            self._runner.stopping.set()
            # Between two micro-batches either nothing is going on, or the next one is held back.
            while self.query.isActive:
                if self._runner.parked.wait(_LOOK_SECONDS) or not self.query.status["isTriggerActive"]:
                    self.query.stop()
        finally:
            py4j.removeFilter(quiet)

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

    def _wait(self, seconds: float | None) -> bool:
        try:
            return self._ended(seconds)
        except StreamingQueryException:
            if self._runner.stopping.is_set() and StoppedBetweenBatches.__name__ in str(self.query.exception()):
                return True
            raise

    def _ended(self, seconds: float | None) -> bool:
        end = math.inf if seconds is None else time.monotonic() + seconds
        while True:
            # Java waits without heeding signals, so never for long; it takes fractions.
            left = max(_SHORTEST_SECONDS, min(_WAIT_SECONDS, end - time.monotonic()))
            ended = bool(self.query.awaitTermination(left))  # type: ignore[arg-type]
            if ended or time.monotonic() >= end:
                return ended

"""A query that runs: its progress, and how it is stopped between two micro-batches."""

import logging
import math
import threading
import time
import uuid
from collections.abc import Callable
from typing import Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from spark_jobs.driver_stats import DriverStats
from spark_jobs.errors import SparkJobError
from spark_jobs.micro_batch import Written
from spark_jobs.progress import line

logger = logging.getLogger("spark_jobs.progress")

_LOOK_SECONDS: Final = 0.05
_TELL_SECONDS: Final = 1.0
_SHORTEST_SECONDS: Final = 0.001
_INTERRUPTION_SECONDS: Final = 30.0
_REMEMBERED: Final = 100

RunBatch = Callable[[DataFrame, int, str, bytes], Written]


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
        self.written: dict[int, Written] = {}

    def __call__(self, records: DataFrame, batch_id: int) -> None:
        """Processes the records of a micro-batch."""
        if self.stopping.is_set():
            self._await_interruption(records)
            raise StoppedBetweenBatches(f"{self.name} was told to stop before micro-batch {batch_id}")
        query_id = query_id_of(records)
        session = uuid.UUID(query_id).bytes
        try:
            self.written[batch_id] = self._run(records, batch_id, query_id, session)
        except StoppedBetweenBatches:
            # It had written nothing yet: as good as held back, and Spark must not take this for a failure either.
            self._await_interruption(records)
            raise
        self.written.pop(batch_id - _REMEMBERED, None)

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

    While somebody waits for it, it says a line about each micro-batch in the log.

    Attributes:
        query: Spark's own handle.
    """

    def __init__(self, query: StreamingQuery, runner: BatchRunner, stats: DriverStats) -> None:
        self.query = query
        self._runner = runner
        self._stats = stats
        self._told = -1

    @property
    def progress(self) -> StreamingQueryProgress | None:
        """Spark's account of the last micro-batch."""
        return self.query.lastProgress

    def written(self, batch_id: int) -> Written | None:
        """What a micro-batch has written, if it was one of the last hundred of this process."""
        return self._runner.written.get(batch_id)

    def stop(self) -> None:
        """Finishes the micro-batch that runs, commits it, and stops."""
        self._stop()
        self._stats.end()

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
            self._stats.end()
            raise
        if ended:
            self._stats.end()
        return ended

    def _wait(self, seconds: float | None) -> bool:
        try:
            return self._ended(seconds)
        except StreamingQueryException:
            if self._runner.stopping.is_set() and StoppedBetweenBatches.__name__ in str(self.query.exception()):
                return True
            raise

    @property
    def _outstanding(self) -> str | None:
        """What is waited for, as a part of the line about a micro-batch."""
        return None

    def _ended(self, seconds: float | None) -> bool:
        end = math.inf if seconds is None else time.monotonic() + seconds
        while True:
            left = max(_SHORTEST_SECONDS, min(_TELL_SECONDS, end - time.monotonic()))
            try:
                ended = bool(self.query.awaitTermination(left))  # type: ignore[arg-type]  # it takes fractions
            except StreamingQueryException:
                self._tell(is_last=True)
                raise
            self._tell(is_last=ended)
            if ended or time.monotonic() >= end:
                return ended

    def _tell(self, *, is_last: bool) -> None:
        written = {number: each for number, each in list(self._runner.written.items()) if number > self._told}
        if not written:
            return
        last = self.query.lastProgress
        recent = [last] if len(written) == 1 else self.query.recentProgress
        progress = {each.batchId: each for each in recent if each is not None}
        newest = max(progress, default=-1)
        for number, each in sorted(written.items()):
            # Spark's account of a micro-batch comes a moment after its end.
            if number > newest and not is_last:
                return
            said = line(each, progress.get(number), self._outstanding)
            logger.info("%s: batch %d, %s", self._runner.name, number, said)
            self._told = number

"""Spark's account of each micro-batch: a line in the log, and how far behind a query is."""

import json
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from spark_jobs.micro_batch import BatchResult

logger = logging.getLogger("spark_jobs.progress")


class ProgressListener(StreamingQueryListener):
    """Logs each micro-batch of a query, and remembers the last one; Spark calls it in a thread of its own.

    Args:
        name: of the query, for logs.
        written: what a micro-batch has written, by its id.

    Attributes:
        query_id: of the query; events of others are skipped.
        ended: set when Spark has said that it has.
        progress: Spark's account of the last micro-batch.
        outstanding: what a spout waits for, as a part of the line.
        on_end_offsets: called with topic → partition → where a micro-batch ended.
    """

    def __init__(self, name: str, written: Mapping[int, BatchResult]) -> None:
        self._name = name
        self._written = written
        self.query_id = ""
        self.ended = threading.Event()
        self.progress: StreamingQueryProgress | None = None
        self.outstanding: Callable[[], str | None] = lambda: None
        self.on_end_offsets: Callable[[Mapping[str, Mapping[str, int]]], object] = lambda _offsets: None

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - of Spark
        """Does nothing."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - of Spark
        """Does nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - of Spark
        """Says that nothing follows."""
        if str(event.id) == self.query_id:
            self.ended.set()

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - of Spark
        """Logs a micro-batch."""
        progress = event.progress
        if str(progress.id) != self.query_id:
            return
        self.progress = progress
        written = self._written.get(progress.batchId)
        if written is not None and progress.numInputRows:
            said = line(written, progress, self.outstanding())
            logger.info("%s: batch %d, %s", self._name, progress.batchId, said)
        end = _source(progress).get("endOffset")
        if isinstance(end, dict):
            self.on_end_offsets(end)


def _source(progress: StreamingQueryProgress) -> Mapping[str, Any]:
    sources: list[Mapping[str, Any]] = json.loads(progress.json)["sources"]
    return sources[0] if sources else {}


def unread(progress: StreamingQueryProgress | None) -> int | None:
    """Records that lay behind the end of a micro-batch when Spark planned it; None if it does not say so."""
    if progress is None:
        return None
    source = _source(progress)
    latest, end = source.get("latestOffset"), source.get("endOffset")
    if not (isinstance(latest, dict) and isinstance(end, dict)):
        return None
    return sum(
        max(0, int(offset) - int(end.get(topic, {}).get(partition, 0)))
        for topic, partitions in latest.items()
        for partition, offset in partitions.items()
    )


def line(written: BatchResult, progress: StreamingQueryProgress, outstanding: str | None = None) -> str:
    """The account of a micro-batch.

    Args:
        written: what came of it.
        progress: Spark's own account.
        outstanding: what a spout still waits for; a bolt waits for nothing.
    """
    behind = unread(progress)
    # By all the time that it took, Spark's own bookkeeping included.
    seconds = progress.durationMs.get("triggerExecution", 0) / 1000 or written.seconds
    parts = [
        f"{written.rows:,} rows in",
        f"{written.rows / max(seconds, 0.001):,.0f} rows/s",
        *([] if behind is None else [f"{behind:,} unread"]),
        *([] if outstanding is None else [outstanding]),
        f"{written.tuples:,} tuples out",
        *([f"{written.acks:,} acks", f"{written.failed:,} failed"] if outstanding is None else []),
        f"{written.dead:,} dead letters",
        f"{written.seconds:.2f} s",
    ]
    return ", ".join(parts)

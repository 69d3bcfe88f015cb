"""What a query says of each micro-batch: one line in the log."""

import json

from pyspark.sql.streaming.listener import StreamingQueryProgress

from spark_jobs.micro_batch import Written


def unread(progress: StreamingQueryProgress | None) -> int | None:
    """Records that lay behind the end of a micro-batch when Spark planned it; None if it does not say so."""
    if progress is None:
        return None
    source = json.loads(progress.json)["sources"][0]
    latest, end = source.get("latestOffset"), source.get("endOffset")
    if not (isinstance(latest, dict) and isinstance(end, dict)):
        return None
    return sum(
        max(0, int(offset) - int(end.get(topic, {}).get(partition, 0)))
        for topic, partitions in latest.items()
        for partition, offset in partitions.items()
    )


def rows_per_second(written: Written, progress: StreamingQueryProgress | None) -> float:
    """Inputs of a micro-batch by all the time that it took, Spark's own bookkeeping included."""
    millis = progress.durationMs.get("triggerExecution", 0) if progress is not None else 0
    return written.rows / max(millis / 1000 or written.seconds, 0.001)


def line(written: Written, progress: StreamingQueryProgress | None, outstanding: str | None = None) -> str:
    """The account of a micro-batch.

    Args:
        written: what came of it.
        progress: Spark's own account, if there is one already.
        outstanding: what a spout still waits for; a bolt waits for nothing.
    """
    behind = unread(progress)
    parts = [
        f"{written.rows:,} rows in",
        f"{rows_per_second(written, progress):,.0f} rows/s",
        *([] if behind is None else [f"{behind:,} unread"]),
        *([] if outstanding is None else [outstanding]),
        f"{written.tuples:,} tuples out",
        *([f"{written.acks:,} acks", f"{written.failed:,} failed"] if outstanding is None else []),
        f"{written.dead:,} dead letters",
        f"{written.seconds:.2f} s",
    ]
    return ", ".join(parts)

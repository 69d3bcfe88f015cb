"""The word count in Spark: lines → split → count, each a job of its own.

    topic {name}.text ─▶ lines (spout) ──shuffle──▶ split ──shuffle──▶ count ─▶ Parquet in {directory}/counted

The three are services in `docker-compose.yml`, with the profile `spark`; `text` fills the topic, and `verification`
checks the result.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from acker_cli.demo.text import WORD
from acker_cli.demo.word_count import COUNT, LINES, TASKS, Parameters, text_topic
from spout_sdk import Topology, TopologyBuilder, declare

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from spark_jobs import Source

_SPLIT: Final = "split"
# Well above what a few micro-batches take on a busy machine, and a driver that is started again.
_MESSAGE_TIMEOUT: Final = 120.0
# A micro-batch takes some tenths of a second at least, so it should hold many lines.
_MAX_SPOUT_PENDING: Final = 5_000


def counted_directory(parameters: Parameters) -> Path:
    """Directory of the words, with a directory for each micro-batch."""
    return parameters.directory / "counted"


def text(_spark: SparkSession) -> Source:
    """The lines of the topic, with their numbers."""
    from pyspark.sql import functions as F  # noqa: N812

    from spark_jobs import Source

    fields = {"line": F.col("key").cast("string").cast("bigint"), "text": F.col("value").cast("string")}
    return Source(text_topic(Parameters.from_environment(os.environ).name), fields=fields)


def split(rows: DataFrame) -> DataFrame:
    """A row for each word of a line, with its place in the text."""
    from pyspark.sql import functions as F  # noqa: N812

    found = F.regexp_extract_all(F.lower("text"), F.lit(WORD), F.lit(0))
    words = rows.select("line", "_tracking", F.posexplode(found).alias("position", "word"))
    return words.withColumn("position", F.col("position").cast("bigint"))


def count(rows: DataFrame, batch_id: int) -> None:
    """Keeps each word with its place in the text, by which a repeated one is counted once.

    A micro-batch that is run again appends its words again, so acked words are there at any moment.
    """
    directory = counted_directory(Parameters.from_environment(os.environ)) / f"batch={batch_id}"
    rows.select("line", "position", "word").write.mode("append").parquet(directory.as_uri())


def topology() -> Topology:
    parameters = Parameters.from_environment(os.environ)
    builder = TopologyBuilder(parameters.name, message_timeout=_MESSAGE_TIMEOUT, max_spout_pending=_MAX_SPOUT_PENDING)
    lines, split_words = declare({"line": int, "text": str}), declare({"line": int, "position": int, "word": str})
    builder.set_spout(LINES, text, external=True, streams=[lines])
    builder.set_bolt(_SPLIT, split, tasks=TASKS, external=True, streams=[split_words]).shuffle_grouping(LINES)
    builder.set_bolt(COUNT, count, tasks=TASKS, external=True).shuffle_grouping(_SPLIT)
    return builder.build()

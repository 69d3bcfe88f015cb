"""The word count with its middle in Spark: lines (SDK) → split (Spark) → count (SDK).

The spout and the last bolt are those of `word_count`, so what comes out is compared in the same way. As services they
stand in `docker-compose.yml`, under the profile `spark`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from acker_cli.demo.text import WORD
from acker_cli.demo.word_count import COUNT, LINES, SPLIT, CountBolt, LineSpout, Parameters, SplitBolt
from spout_sdk import Stream, Topology, TopologyBuilder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Well above what a few micro-batches take on a busy machine.
_MESSAGE_TIMEOUT: Final = 120.0
# A micro-batch costs some tenths of a second whatever it holds, so it should hold many lines.
_MAX_SPOUT_PENDING: Final = 5_000


def _single(stream: Stream) -> Stream:
    """The same stream with one tuple a record."""
    return stream.model_copy(update={"codec": "avro"})


class SingleLineSpout(LineSpout):
    """Emits one line a record, as Spark reads them."""

    streams = (_single(LineSpout.streams[0]),)


def split(rows: DataFrame) -> DataFrame:
    """A row for each word of a line, with its place in the text, as `SplitBolt` emits them."""
    from pyspark.sql import functions as F  # noqa: N812

    found = F.regexp_extract_all(F.lower("text"), F.lit(WORD), F.lit(0))
    words = rows.select("line", "_tracking", F.posexplode(found).alias("position", "word"))
    return words.withColumn("position", F.col("position").cast("bigint"))


def topology() -> Topology:
    """Builds the topology from the environment."""
    parameters = Parameters.from_environment(os.environ)
    builder = TopologyBuilder(parameters.name, message_timeout=_MESSAGE_TIMEOUT, max_spout_pending=_MAX_SPOUT_PENDING)
    builder.set_spout(LINES, lambda: SingleLineSpout(parameters), tasks=2)
    words = [_single(SplitBolt.streams[0])]
    builder.set_bolt(SPLIT, split, tasks=2, external=True, streams=words).shuffle_grouping(LINES)
    builder.set_bolt(COUNT, lambda: CountBolt(parameters), tasks=2).fields_grouping(SPLIT, "word")
    return builder.build()

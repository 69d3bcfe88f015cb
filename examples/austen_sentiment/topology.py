"""lines (Spark) → sentiment (Spark) → totals (SDK)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from examples.austen_sentiment.lexicon import rated_words
from examples.austen_sentiment.text import PLACES_A_LINE, SCHEMA, WORD, directory
from examples.austen_sentiment.totals import Totals
from spout_sdk import Topology, TopologyBuilder, declare

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME: Final = "austen-sentiment"
LINES: Final = "lines"
SENTIMENT: Final = "sentiment"
TOTALS: Final = "totals"

_LINE: Final = declare({"novel": str, "chapter": int, "number": int, "line": str}, codec="avro")
_FOUND: Final = declare(
    {"novel": str, "chapter": int, "word": str, "valence": float, "places": {"type": "array", "items": "long"}}
)


def lines(spark: SparkSession) -> DataFrame:
    """The source of the spout: files, which land in a topic, where they can be read again."""
    return spark.readStream.schema(SCHEMA).json(str(directory() / "text"))


def sentiment(rows: DataFrame) -> DataFrame:
    """A row for each rated word of a chapter, with its positions in this micro-batch.

    Lines without a rated word have no row here, and are acked all the same.
    """
    from pyspark.sql import functions as F  # noqa: N812

    from spark_jobs import merge_tracking

    found = F.regexp_extract_all(F.lower("line"), F.lit(WORD), F.lit(0))
    words = rows.select("novel", "chapter", "number", "_tracking", F.posexplode(found).alias("position", "word"))
    rated = rows.sparkSession.createDataFrame(rated_words(), "word string, valence double")
    # As a sorted set, so that the emitted tuples do not depend on the order of the rows, which is undefined.
    places = F.sort_array(F.collect_set(F.col("number") * PLACES_A_LINE + F.col("position")))
    return (
        words.join(F.broadcast(rated), "word")
        .groupBy("novel", "chapter", "word", "valence")
        .agg(places.alias("places"), merge_tracking().alias("_tracking"))
    )


def topology() -> Topology:
    """Builds the topology; the message timeout is a minute, because Spark works in micro-batches."""
    builder = TopologyBuilder(NAME, message_timeout=60, max_spout_pending=10_000)
    builder.set_spout(LINES, lines, external=True, streams=[_LINE])
    builder.set_bolt(SENTIMENT, sentiment, external=True, streams=[_FOUND]).shuffle_grouping(LINES)
    builder.set_bolt(TOTALS, Totals, tasks=2).fields_grouping(SENTIMENT, ["novel", "chapter"])
    return builder.build()

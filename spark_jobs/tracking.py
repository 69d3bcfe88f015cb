"""The tracking column: which inputs a row was made from.

`transform` receives it as `_tracking` and has to keep it. It is opaque: the roots that the row's tuples will be
anchored to, 8 bytes each. Rows that are selected, filtered, joined or exploded keep it by themselves; an aggregation
merges it. It is binary, because Spark's ArrowWriter fills a batch with null arrays in quadratic time: 8 µs a row.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

TRACKING: Final = "_tracking"
SOURCE: Final = "_source"
STREAM: Final = "_stream"
FAIL: Final = "_fail"

TRACKING_TYPE: Final = "binary"


def merge_tracking(tracking: Column | str = TRACKING) -> Column:
    """Aggregates the tracking column: the aggregated row is anchored to all its inputs.

    words.groupBy("word").agg(F.count("*").alias("count"), merge_tracking().alias("_tracking"))
    """
    return F.listagg(tracking)


def mark_failed(rows: DataFrame, condition: Column, message: Column | str) -> DataFrame:
    """Marks rows as failed: they are not emitted, and every tree that they belong to fails with the message.

    A condition that is null marks nothing, and an earlier mark stays.
    """
    said = F.lit(message) if isinstance(message, str) else message
    mark = F.when(condition, F.coalesce(said.cast("string"), F.lit("failed")))
    return rows.withColumn(FAIL, F.coalesce(rows[FAIL], mark) if FAIL in rows.columns else mark)

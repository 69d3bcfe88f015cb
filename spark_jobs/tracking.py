"""The tracking column: which inputs a row was made from.

`transform` receives it as `_tracking` and has to keep it. It is opaque: an identity, from which the edges of the row's
tuples are made, the roots that these will be anchored to, and the edge of the input's one anchor. Rows that are
selected, filtered, joined or exploded keep it by themselves; an aggregation merges it.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

TRACKING: Final = "_tracking"
SOURCE: Final = "_source"
STREAM: Final = "_stream"
FAIL: Final = "_fail"

TRACKING_TYPE: Final = "struct<id: bigint, roots: array<bigint>, edge: bigint>"


def tracking_of(id_: Column, roots: Column, edge: Column) -> Column:
    """The tracking of one input; `edge` is null unless it has exactly one anchor."""
    return F.struct(id_.alias("id"), roots.alias("roots"), edge.alias("edge"))


def merge_tracking(tracking: Column | str = TRACKING) -> Column:
    """Aggregates the tracking column: the aggregated row is anchored to all its inputs.

        words.groupBy("word").agg(F.count("*").alias("count"), merge_tracking().alias("_tracking"))

    The result does not depend on the order of the rows.
    """
    column = F.col(tracking) if isinstance(tracking, str) else tracking
    # Inputs that were exploded into the group twice cancel out of the XOR; the count tells such groups apart.
    id_ = F.xxhash64(F.bit_xor(column["id"]), F.count(F.lit(1)))
    roots = F.sort_array(F.array_distinct(F.flatten(F.collect_list(column["roots"]))))
    return tracking_of(id_, roots, F.lit(None).cast("bigint"))


def mark_failed(rows: DataFrame, condition: Column, message: Column | str) -> DataFrame:
    """Marks rows as failed: they are not emitted, and every tree that they belong to fails with the message.

    A condition that is null marks nothing, and an earlier mark stays.
    """
    said = F.lit(message) if isinstance(message, str) else message
    mark = F.when(condition, F.coalesce(said.cast("string"), F.lit("failed")))
    return rows.withColumn(FAIL, F.coalesce(rows[FAIL], mark) if FAIL in rows.columns else mark)

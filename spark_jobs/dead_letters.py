"""Dead letters as Spark writes them: a struct beside the row that cannot be used, and the record it becomes.

The record and its headers are those of `tuple_tree.dead_letters`.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from spark_jobs.anchors import HEADERS_TYPE
from tuple_tree.dead_letters import PREFIX
from tuple_tree.names import dead_letters_topic

REASON_TYPE: Final = "struct<reason: string, detail: string>"

_LARGEST_DETAIL: Final = 500
_LARGEST_VALUE: Final = 1_000_000
"""Bytes of a value that still fit a record of 1 MiB when a dead letter's headers come on top."""


def reason(word: str, detail: Column) -> Column:
    """Why a record is dead, of type `REASON_TYPE`: a short, stable word and a sentence."""
    return F.struct(F.lit(word).alias("reason"), F.substring(detail, 1, _LARGEST_DETAIL).alias("detail"))


def dead_letter(at: Column | None, why: Column, by: Column) -> Column:
    """What becomes of a record that cannot be used.

    Args:
        at: the record, a struct of Kafka's columns; None where these are columns of the row itself.
        why: see `reason`.
        by: who cannot use it, `component/task`.

    Returns:
        A struct of `key`, `value` (null if it leaves no room for headers) and `headers`.
    """

    def of(name: str) -> Column:
        return F.col(name) if at is None else at[name]

    said = {
        "topic": of("topic"),
        "partition": of("partition"),
        "offset": of("offset"),
        "reason": why["reason"],
        "detail": why["detail"],
        "by": by,
    }
    ours = [
        F.struct(F.lit(PREFIX + name).alias("key"), text.cast("string").cast("binary").alias("value"))
        for name, text in said.items()
    ]
    own = F.coalesce(of("headers"), F.array().cast(HEADERS_TYPE))
    return F.struct(
        of("key").alias("key"),
        F.when(F.length(of("value")) <= _LARGEST_VALUE, of("value")).alias("value"),
        F.concat(own, F.array(*ours)).alias("headers"),
    )


def dead_letter_records(rows: DataFrame, dead: Column, topology: str) -> DataFrame:
    """The records of `{topology}.dead-letters`: one for each row whose `dead` is not null."""
    return rows.where(dead.isNotNull()).select(
        F.lit(dead_letters_topic(topology)).alias("topic"),
        F.lit(0).alias("partition"),
        dead["key"].alias("key"),
        dead["value"].alias("value"),
        dead["headers"].alias("headers"),
    )

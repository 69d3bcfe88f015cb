"""The headers of a spout's tuple as Spark expressions: `anchors` and `source`."""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from spark_jobs.ids import id_digits
from tuple_tree.anchors import ANCHORS_HEADER, SOURCE_HEADER

HEADERS_TYPE: Final = "array<struct<key: string, value: binary>>"


def root_headers(root: Column, edge: Column, source: Column) -> Column:
    """The headers of one delivery.

    Args:
        root: `bigint`; null for an untracked tuple.
        edge: of this delivery.
        source: `component/stream`, text.
    """
    anchor = F.unhex(F.concat(id_digits(root), id_digits(edge)))
    said = _header(SOURCE_HEADER, source.cast("binary"))
    return F.when(root.isNotNull(), F.array(_header(ANCHORS_HEADER, anchor), said)).otherwise(F.array(said))


def _header(name: str, value: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), value.alias("value"))

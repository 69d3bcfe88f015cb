"""The headers of a record of one tuple as Spark expressions: `anchors`, `anchor-counts` and `source`."""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from spark_jobs.ids import id_digits, id_of, ids_of
from tuple_tree.anchors import ANCHOR_COUNTS_HEADER, ANCHORS_HEADER, PAIR_BYTES, SOURCE_HEADER
from tuple_tree.ids import ID_BYTES

ROOTS_TYPE: Final = "array<bigint>"
HEADERS_TYPE: Final = "array<struct<key: string, value: binary>>"


def header(headers: Column, name: str) -> Column:
    """The value of a header of a Kafka record, the last one where it stands twice; null if there is none."""
    found = F.filter(headers, lambda each: each["key"] == F.lit(name))
    return F.get(found, F.size(found) - 1)["value"]


def tuple_headers(headers: Column) -> tuple[Column, Column, Column]:
    """`anchors`, `anchor-counts` and `source`, binary; quicker than one by one for tuples of one anchor."""
    first, second = F.get(headers, F.lit(0)), F.get(headers, F.lit(1))
    usual = (F.size(headers) == 2) & (first["key"] == F.lit(ANCHORS_HEADER)) & (second["key"] == F.lit(SOURCE_HEADER))
    return (
        F.when(usual, first["value"]).otherwise(header(headers, ANCHORS_HEADER)),
        F.when(usual, F.lit(None)).otherwise(header(headers, ANCHOR_COUNTS_HEADER)),
        F.when(usual, second["value"]).otherwise(header(headers, SOURCE_HEADER)),
    )


def are_of_one_tuple(anchors: Column, counts: Column) -> Column:
    """Whether the anchors, which are no ragged ones, are those of one tuple; null if there are none."""
    length = F.length(anchors)
    counted = F.when(counts.isNull(), length == PAIR_BYTES).otherwise(counts == _count(length / PAIR_BYTES))
    return F.when(length > 0, counted)


def one_pair(anchors: Column) -> Column:
    """The pair of a header that holds one, as nearly every tuple's does: `struct<root, edge>` of decimals, else null.

    Make it a column before looking into it: both ids are read at once.
    """
    return F.when(F.length(anchors) == PAIR_BYTES, ids_of(*_halves(anchors, F.lit(1))))


def several_pairs(anchors: Column) -> Column:
    """The pairs of a header that holds more than one, as `array<struct<root, edge>>`, else null.

    Of a ragged header, the whole pairs. A root that stands twice stands twice here.
    """
    pairs = F.transform(
        F.sequence(F.lit(0), F.floor(F.length(anchors) / PAIR_BYTES).cast("int") - 1),
        lambda number: _pair(anchors, number * PAIR_BYTES + 1),
    )
    return F.when(F.length(anchors) >= 2 * PAIR_BYTES, pairs)


def roots_of(root: Column, several: Column) -> Column:
    """The different roots of an input, `array<bigint>`.

    Args:
        root: of the one pair, `bigint`, or null.
        several: the pairs, if there is more than one, or null.
    """
    one = F.when(root.isNotNull(), F.array(root)).otherwise(F.array().cast(ROOTS_TYPE))
    return F.when(several.isNull(), one).otherwise(F.array_distinct(several["root"]))


def child_headers(root: Column, several: Column, edge: Column, source: Column) -> Column:
    """The headers of one delivery: the edge for each root, how many, and the source; of roots only if there are some.

    Args:
        root: `bigint`, if there is one root, else null.
        several: `array<bigint>`, different ones, if there are more, else null.
        edge: of this delivery; one for all roots, which is as good as one for each, because no root stands twice.
        source: `component/stream`, text.
    """
    one = F.unhex(F.concat(id_digits(root), id_digits(edge)))
    many = F.unhex(F.array_join(F.transform(several, lambda each: F.concat(id_digits(each), id_digits(edge))), ""))
    counted = _header(ANCHOR_COUNTS_HEADER, _count(F.size(several)))
    said = _header(SOURCE_HEADER, source.cast("binary"))
    return (
        F.when(root.isNotNull(), F.array(_header(ANCHORS_HEADER, one), said))
        .when(several.isNotNull(), F.array(_header(ANCHORS_HEADER, many), counted, said))
        .otherwise(F.array(said))
    )


def _count(anchors: Column) -> Column:
    """The `anchor-counts` header of one tuple."""
    return F.unhex(F.lpad(F.hex(anchors.cast("bigint")), 4, "0"))


def _pair(anchors: Column, position: Column) -> Column:
    root, edge = _halves(anchors, position)
    return F.struct(id_of(root).alias("root"), id_of(edge).alias("edge"))


def _halves(anchors: Column, position: Column) -> tuple[Column, Column]:
    size = F.lit(ID_BYTES)
    return F.substring(anchors, position, size), F.substring(anchors, position + ID_BYTES, size)


def _header(name: str, value: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), value.alias("value"))

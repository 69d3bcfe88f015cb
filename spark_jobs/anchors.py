"""The `anchors` and `source` headers as Spark expressions."""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from spark_jobs.ids import id_bytes, id_of
from tuple_tree.anchors import ANCHORS_HEADER, PAIR_BYTES, SOURCE_HEADER
from tuple_tree.ids import ID_BYTES

PAIRS_TYPE: Final = "array<struct<root: bigint, edge: bigint>>"
ROOTS_TYPE: Final = "array<bigint>"
HEADERS_TYPE: Final = "array<struct<key: string, value: binary>>"


def header(headers: Column, name: str) -> Column:
    """The value of a header of a Kafka record, the last one where it stands twice; null if there is none."""
    found = F.filter(headers, lambda each: each["key"] == F.lit(name))
    return F.get(found, F.size(found) - 1)["value"]


def anchors_and_source(headers: Column) -> tuple[Column, Column]:
    """Both headers of a tuple, binary; quicker than one by one for tuples as the SDK and Spark bolts write them."""
    first, second = F.get(headers, F.lit(0)), F.get(headers, F.lit(1))
    usual = (F.size(headers) == 2) & (first["key"] == F.lit(ANCHORS_HEADER)) & (second["key"] == F.lit(SOURCE_HEADER))
    return (
        F.when(usual, first["value"]).otherwise(header(headers, ANCHORS_HEADER)),
        F.when(usual, second["value"]).otherwise(header(headers, SOURCE_HEADER)),
    )


def pairs_of(anchors: Column) -> Column:
    """The header as `array<struct<root, edge>>`, empty for null; of a ragged header, the whole pairs.

    A root that stands twice stands twice here.
    """
    bytes_ = F.length(anchors)
    many = F.transform(
        F.sequence(F.lit(0), F.floor(bytes_ / PAIR_BYTES).cast("int") - 1),
        lambda number: _pair(anchors, number * PAIR_BYTES + 1),
    )
    none = F.array().cast(PAIRS_TYPE)
    # One pair is nearly every tuple, and needs no lambda.
    return (
        F.when(bytes_ == PAIR_BYTES, F.array(_pair(anchors, F.lit(1)))).when(bytes_ > PAIR_BYTES, many).otherwise(none)
    )


def roots_of(pairs: Column) -> Column:
    """The different roots of pairs."""
    return F.when(F.size(pairs) < 2, pairs["root"]).otherwise(F.array_distinct(pairs["root"]))


def child_headers(roots: Column, edge: Column, source: Column) -> Column:
    """The headers of one delivery: the edge for each root, and the source; no anchors where there are no roots.

    Args:
        roots: `array<bigint>`, different ones.
        edge: of this delivery; one for all roots, which is as good as one for each, because no root stands twice.
        source: `component/stream`, text.
    """
    edge_bytes = id_bytes(edge)
    many = F.transform(roots, lambda root: F.concat(id_bytes(root), edge_bytes).cast("string"))
    packed = F.when(F.size(roots) == 1, F.concat(id_bytes(F.get(roots, F.lit(0))), edge_bytes)).otherwise(
        joined_bytes(many)
    )
    said = _header(SOURCE_HEADER, source.cast("binary"))
    return F.when(F.size(roots) > 0, F.array(_header(ANCHORS_HEADER, packed), said)).otherwise(F.array(said))


def joined_bytes(pieces: Column) -> Column:
    """Puts an array of texts, whose bytes need not be text, back to back as binary."""
    # There is no `array_join` of binary. A cast between text and binary leaves the bytes alone.
    return F.array_join(pieces, "").cast("binary")


def _pair(anchors: Column, position: Column) -> Column:
    return F.struct(
        id_of(F.substring(anchors, position, F.lit(ID_BYTES))).alias("root"),
        id_of(F.substring(anchors, position + ID_BYTES, F.lit(ID_BYTES))).alias("edge"),
    )


def _header(name: str, value: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), value.alias("value"))

"""The tracking column: which inputs a row was made from.

`transform` receives it as `_tracking` and has to keep it. It is opaque: the roots that the row's tuples will be
anchored to, 8 bytes each. Rows that are selected, filtered, joined or exploded keep it by themselves; an aggregation
merges it.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from spark_jobs.errors import SparkJobError
from tuple_tree.anchors import AnchorColumns
from tuple_tree.ids import ID_BYTES, pack_ids, unpack_ids

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
    text = F.lit(message) if isinstance(message, str) else message
    mark = F.when(condition, F.coalesce(text.cast("string"), F.lit("failed")))
    return rows.withColumn(FAIL, F.coalesce(rows[FAIL], mark) if FAIL in rows.columns else mark)


def tracking_of(anchors: AnchorColumns) -> Any:
    """The `_tracking` of tuples: the roots of each, big-endian."""
    rows = len(anchors.roots) if anchors.starts is None else len(anchors.starts) - 1
    starts = np.arange(rows + 1) if anchors.starts is None else anchors.starts
    offsets = (ID_BYTES * starts).astype(np.int32)
    return pa.Array.from_buffers(
        pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(pack_ids(anchors.roots))]
    )


def roots_of(tracking: Any) -> AnchorColumns:
    """The roots of rows, each once, of their `_tracking`, with edges of zero; null is a row without roots."""
    column = tracking.cast(pa.binary())
    if column.null_count:
        column = column.fill_null(b"")
    _, offsets, values = column.buffers()
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1] if len(column) else [0]
    sizes = np.diff(ends)
    if (sizes % ID_BYTES).any():
        raise SparkJobError(f"{TRACKING} has values that are no roots: keep that column as it is")
    counts = sizes // ID_BYTES
    roots = unpack_ids(values[ends[0] : ends[-1]]).astype(np.uint64) if values else np.empty(0, np.uint64)
    if (counts == 1).all():
        return AnchorColumns(roots, np.zeros(len(roots), np.uint64), None)
    # An edge that is added to a tree twice cancels, so a root that was merged twice must stand once.
    rows = np.repeat(np.arange(len(counts)), counts)
    order = np.lexsort((roots, rows))
    rows, roots = rows[order], roots[order]
    first = np.ones(len(rows), np.bool_)
    first[1:] = (rows[1:] != rows[:-1]) | (roots[1:] != roots[:-1])
    starts = np.concatenate(([0], np.cumsum(np.bincount(rows[first], minlength=len(counts))))).astype(np.intp)
    return AnchorColumns(roots[first], np.zeros(int(first.sum()), np.uint64), starts)

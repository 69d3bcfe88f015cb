"""The columns that `transform` receives and returns besides the fields: `_tracking`, `_source`, `_stream` and `_fail`.

`_tracking` has the roots that the tuples of a row will be anchored to, 8 bytes each, and is opaque to `transform`,
which has to keep it. Rows that are selected, filtered, joined or exploded keep it by themselves; an aggregation merges
it.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.group import GroupedData
from pyspark.sql.types import StructType

from spark_jobs.errors import SparkJobError, TransformRefusedError
from spark_jobs.frames import spark_fields
from tuple_tree.anchors import RootColumns
from tuple_tree.ids import ID_BYTES, pack_ids, unpack_ids
from tuple_tree.streams import StreamDeclaration

Transform = Callable[[DataFrame], DataFrame]
Sink = Callable[[DataFrame, int], object]

TRACKING: Final = "_tracking"
SOURCE: Final = "_source"
STREAM: Final = "_stream"
FAIL: Final = "_fail"

_WIDENING: Final = {  # types whose columns can be emitted without losing anything
    "bigint": ("tinyint", "smallint", "int"),
    "int": ("tinyint", "smallint"),
    "double": ("float", "tinyint", "smallint", "int"),
}
_STATEFUL: Final = ("withWatermark", "dropDuplicatesWithinWatermark")
_GROUPED_STATEFUL: Final = ("applyInPandasWithState", "transformWithState", "transformWithStateInPandas")


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


def tracking_of(columns: RootColumns) -> Any:
    """The `_tracking` of tuples: the roots of each, big-endian."""
    starts = np.arange(len(columns.roots) + 1) if columns.starts is None else columns.starts
    offsets = (ID_BYTES * starts).astype(np.int32)
    return pa.Array.from_buffers(
        pa.binary(), len(starts) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(pack_ids(columns.roots))]
    )


def roots_of(tracking: Any) -> RootColumns:
    """The roots of rows, each once, of their `_tracking`; null is a row without roots."""
    column = tracking.cast(pa.binary())
    if column.null_count:
        column = column.fill_null(b"")
    _, offsets, values = column.buffers()
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1] if len(column) else [0]
    sizes = np.diff(ends)
    if (sizes % ID_BYTES).any():
        raise SparkJobError(f"{TRACKING} has values that are not roots: keep that column as it is")
    counts = sizes // ID_BYTES
    roots = unpack_ids(values[ends[0] : ends[-1]]).astype(np.uint64) if values else np.empty(0, np.uint64)
    if (counts == 1).all():
        return RootColumns(roots, None)
    # An edge that is added to a tree twice cancels, so a root that was merged twice must stand once.
    rows = np.repeat(np.arange(len(counts)), counts)
    order = np.lexsort((roots, rows))
    rows, roots = rows[order], roots[order]
    first = np.ones(len(rows), np.bool_)
    first[1:] = (rows[1:] != rows[:-1]) | (roots[1:] != roots[:-1])
    starts = np.concatenate(([0], np.cumsum(np.bincount(rows[first], minlength=len(counts))))).astype(np.intp)
    return RootColumns(roots[first], starts)


@contextmanager
def without_state(component: str, rows: DataFrame) -> Iterator[None]:
    """Rejects, in this thread and within the block, methods for state over micro-batches.

    Spark ignores a watermark of plain rows, and its plan does not show one.
    """
    thread = threading.get_ident()

    def rejecting(name: str, method: Any) -> Any:
        @wraps(method)
        def rejected(*given: Any, **named: Any) -> Any:
            if threading.get_ident() != thread:
                return method(*given, **named)
            raise TransformRefusedError(
                f"transform of {component!r} calls {name}: its rows are those of a micro-batch, and no state outlives "
                "it; keep totals in a later bolt, or aggregate in a streaming job of your own and emit its rows"
            )

        return rejected

    kinds: tuple[tuple[Any, tuple[str, ...]], ...] = ((type(rows), _STATEFUL), (GroupedData, _GROUPED_STATEFUL))
    replaced = [(kind, name, vars(kind).get(name)) for kind, names in kinds for name in names if hasattr(kind, name)]
    for kind, name, _ in replaced:
        setattr(kind, name, rejecting(name, getattr(kind, name)))
    try:
        yield
    finally:
        for kind, name, own in replaced:
            if own is None:
                delattr(kind, name)
            else:
                setattr(kind, name, own)


def check_result(result: Any, component: str, streams: Mapping[str, StreamDeclaration]) -> None:
    """Checks that what `transform` returned can be emitted."""
    where = f"transform of {component!r}"
    if not isinstance(result, DataFrame):
        raise TransformRefusedError(f"{where} returns a {type(result).__name__}: return the DataFrame of rows to emit")
    schema = result.schema
    types = {field.name: field.dataType.simpleString() for field in schema}
    if TRACKING not in types:
        raise TransformRefusedError(
            f"{where} returns {_listed(schema)}, without {TRACKING}: keep that column, and in an aggregation merge it, "
            f'with merge_tracking().alias("{TRACKING}")'
        )
    if types[TRACKING] != "binary":
        raise TransformRefusedError(
            f"{where} returns a {types[TRACKING]} as {TRACKING}: keep that column as it is, and aggregate it with "
            "nothing but merge_tracking()"
        )
    for marked in (FAIL, STREAM):
        if types.get(marked, "string") != "string":
            raise TransformRefusedError(f"{where} returns {marked} as {types[marked]}: it must be text")
    if len(streams) > 1 and STREAM not in types:
        raise TransformRefusedError(
            f"{where} has streams {', '.join(streams)}: say in column {STREAM} which one a row goes to"
        )
    for stream in streams.values():
        check_fields(schema, stream, where)


def check_fields(schema: StructType, stream: StreamDeclaration, where: str) -> None:
    """Checks that a DataFrame has the fields of a stream."""
    for name, wanted in spark_fields(stream).items():
        field = f"field {name!r} of stream {stream.name!r}"
        if schema.names.count(name) != 1:
            has = "twice" if name in schema.names else "not at all"
            raise TransformRefusedError(
                f"{where} returns {_listed(schema)}, and {field} {has}: name one column {name!r}"
            )
        given, declared = schema[name].dataType.simpleString(), wanted.simpleString()
        if given != declared and given not in _WIDENING.get(declared, ()):
            raise TransformRefusedError(
                f"{where} returns {field} as {given}: the topology declares {declared}, so cast it"
            )


def stream_columns(rows: DataFrame, stream: StreamDeclaration, where: str) -> DataFrame:
    """The fields of a stream, with its types, of a DataFrame that is checked to have them."""
    check_fields(rows.schema, stream, where)
    kinds = spark_fields(stream).items()
    return rows.select(*[F.col(f"`{name}`").cast(kind).alias(name) for name, kind in kinds])


def _listed(schema: StructType) -> str:
    return "columns " + ", ".join(schema.names) if schema.names else "no columns"

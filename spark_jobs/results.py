"""Whether what `transform` returned can be emitted."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql.group import GroupedData
from pyspark.sql.types import DataType, StructType

from spark_jobs.errors import ComponentRefusedError, TransformRefusedError
from spark_jobs.frames import StreamFrame, ddl_of
from spark_jobs.tracking import FAIL, STREAM, TRACKING, TRACKING_TYPE

_WIDENING: Final = {  # types whose columns can be emitted without losing anything
    "bigint": ("tinyint", "smallint", "int"),
    "int": ("tinyint", "smallint"),
    "double": ("float", "tinyint", "smallint", "int"),
}


def spark_fields(frame: StreamFrame) -> dict[str, DataType]:
    """The fields of a stream as Spark has them."""
    ddl = ", ".join(f"`{field.name}` {ddl_of(field.type)}" for field in frame.schema)
    made = StructType.fromDDL(ddl)
    assert isinstance(made, StructType)  # noqa: S101 - for the type checker
    return {field.name: field.dataType for field in made}


def fields_in(streams: Mapping[str, StreamFrame], bolt: str) -> dict[str, DataType]:
    """The fields of all streams that a bolt receives."""
    fields: dict[str, DataType] = {}
    for source, frame in streams.items():
        for name, kind in spark_fields(frame).items():
            known = fields.setdefault(name, kind)
            if known != kind:
                raise ComponentRefusedError(
                    f"bolt {bolt!r} receives field {name!r} as {known.simpleString()}, and from {source} as "
                    f"{kind.simpleString()}: a DataFrame has one type a column, so rename one"
                )
    return fields


_STATEFUL: Final = ("withWatermark", "dropDuplicatesWithinWatermark")
_GROUPED_STATEFUL: Final = ("applyInPandasWithState", "transformWithState", "transformWithStateInPandas")


@contextmanager
def without_state(component: str, rows: DataFrame) -> Iterator[None]:
    """Rejects, within the block, methods for state over micro-batches: Spark ignores a watermark of plain rows."""

    def rejecting(name: str) -> Any:
        def rejected(*_: Any, **__: Any) -> Any:
            raise TransformRefusedError(
                f"transform of {component!r} calls {name}: its rows are those of a micro-batch, and no state outlives "
                "it; keep totals in a bolt behind, or aggregate in a streaming job of your own and emit its rows"
            )

        return rejected

    kinds: tuple[tuple[Any, tuple[str, ...]], ...] = ((type(rows), _STATEFUL), (GroupedData, _GROUPED_STATEFUL))
    replaced = [(kind, name, vars(kind).get(name)) for kind, names in kinds for name in names if hasattr(kind, name)]
    for kind, name, _ in replaced:
        setattr(kind, name, rejecting(name))
    try:
        yield
    finally:
        for kind, name, own in replaced:
            if own is None:
                delattr(kind, name)
            else:
                setattr(kind, name, own)


def check_result(result: Any, component: str, streams: Mapping[str, StreamFrame]) -> None:
    """Checks what `transform` returned."""
    where = f"transform of {component!r}"
    if not isinstance(result, DataFrame):
        raise TransformRefusedError(f"{where} returns a {type(result).__name__}: return the DataFrame of rows to emit")
    schema = result.schema
    if TRACKING not in schema.names:
        raise TransformRefusedError(
            f"{where} returns {_listed(schema)}, without {TRACKING}: keep that column, and in an aggregation merge it, "
            f'with merge_tracking().alias("{TRACKING}")'
        )
    if schema[TRACKING].dataType.simpleString() != TRACKING_TYPE.replace(" ", ""):
        raise TransformRefusedError(
            f"{where} returns a {schema[TRACKING].dataType.simpleString()} as {TRACKING}: keep that column as it is, "
            "and aggregate it with nothing but merge_tracking()"
        )
    for marked in (FAIL, STREAM):
        if marked in schema.names and schema[marked].dataType.simpleString() != "string":
            raise TransformRefusedError(
                f"{where} returns {marked} as {schema[marked].dataType.simpleString()}: it must be text"
            )
    if len(streams) > 1 and STREAM not in schema.names:
        raise TransformRefusedError(
            f"{where} has streams {', '.join(streams)}: say in column {STREAM} which one a row goes to"
        )
    for name, frame in streams.items():
        check_fields(schema, name, spark_fields(frame), where)


def check_fields(schema: StructType, stream: str, fields: Mapping[str, DataType], where: str) -> None:
    """Checks that a DataFrame has the fields of a stream."""
    for name, wanted in fields.items():
        field = f"field {name!r} of stream {stream!r}"
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


def _listed(schema: StructType) -> str:
    return "columns " + ", ".join(schema.names) if schema.names else "no columns"

"""Payloads as Spark expressions: codecs of one tuple a record, read and written by Spark itself.

Reading tells a payload that is not the stream's from one whose fields are all null: Avro fills in a field that only
the reader knows, and JSON keeps what it could not read. Unlike the SDK, Spark does not notice bytes that follow an Avro
record.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.avro.functions import from_avro, to_avro
from pyspark.sql.types import DataType, DoubleType, FloatType, StringType, StructField, StructType

from spark_jobs.errors import ComponentRefusedError
from tuple_tree.streams import Stream

FIELD: Final = "_field_"
"""Stands before the name of a field, which may be called like a column of ours or Kafka's."""

_READ: Final = "_read"
_CORRUPT: Final = "_corrupt"
_PERMISSIVE: Final = {"mode": "PERMISSIVE"}
_LARGEST: Final = 1.7976931348623157e308

_DEFAULTS: Final[dict[str, Any]] = {"string": "", "bigint": 0, "int": 0, "double": 0.0, "float": 0.0, "boolean": False}


@dataclass(frozen=True, slots=True)
class StreamSchema:
    """A stream as Spark sees it.

    Attributes:
        stream: as declared.
        fields: name and Spark type of each field, nullable as in Avro.
    """

    stream: Stream
    fields: StructType

    @property
    def types(self) -> dict[str, DataType]:
        """The Spark type of each field, by name."""
        return {field.name: field.dataType for field in self.fields}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields, in order."""
        return self.stream.field_names


def schema_of(spark: SparkSession, stream: Stream) -> StreamSchema:
    """Asks Spark what it makes of the stream's Avro types.

    Raises:
        ComponentRefusedError: if a record of the stream carries several tuples.
    """
    if stream.codec == "arrow":
        raise ComponentRefusedError(
            f"stream {stream.name!r} has codec arrow: Spark components read and write streams of one tuple a record, "
            'so declare it with codec="avro" or "json"'
        )
    avro = json.dumps(stream.avro_schema())
    read = spark.range(0).select(from_avro(F.lit(b""), avro).alias("read")).schema["read"].dataType
    assert isinstance(read, StructType)  # noqa: S101 - for the type checker
    fields = [
        StructField(name, read[name].dataType, _nullable(field.type))
        for name, field in zip(stream.field_names, stream.fields, strict=True)
    ]
    return StreamSchema(stream, StructType(fields))


def _nullable(avro_type: Any) -> bool:
    if isinstance(avro_type, dict):
        return _nullable(avro_type.get("type"))
    return avro_type == "null" or (isinstance(avro_type, list) and "null" in avro_type)


def read_payload(payload: Column, schema: StreamSchema) -> Column:
    """The payload as Spark reads it, with a mark of its own; make it a column before anything looks into it."""
    stream = schema.stream
    if stream.codec == "bytes":
        return F.struct(payload.alias(stream.field_names[0]))
    if stream.codec == "json":
        corrupt = StructField(_CORRUPT, StringType())
        fields = [StructField(field.name, field.dataType) for field in schema.fields]
        options = {**_PERMISSIVE, "columnNameOfCorruptRecord": _CORRUPT, "allowNonNumericNumbers": "false"}
        return F.from_json(payload.cast("string"), StructType([*fields, corrupt]), options)
    written = stream.avro_schema()
    mark = {"name": _READ, "type": "boolean", "default": True}
    reader = {**written, "fields": [*written["fields"], mark]}
    return from_avro(payload, json.dumps(written), {**_PERMISSIVE, "avroSchema": json.dumps(reader)})


def is_payload(read: Column, schema: StreamSchema) -> Column:
    """Whether a column made by `read_payload` comes from a payload of the stream; never null."""
    if schema.stream.codec == "avro":
        return F.coalesce(read[_READ], F.lit(False))
    if schema.stream.codec == "json":
        good = read.isNotNull() & read[_CORRUPT].isNull()
        for field in schema.fields:
            if not field.nullable:
                good &= read[field.name].isNotNull()
        return good
    return read[schema.names[0]].isNotNull()


def read_fields(read: Column, schema: StreamSchema) -> Column:
    """The stream's fields of a column made by `read_payload`; null if the payload is not one of the stream's."""
    return F.when(is_payload(read, schema), F.struct(*[read[name].alias(name) for name in schema.names]))


def encoded(fields: Sequence[Column], schema: StreamSchema) -> Column:
    """The fields, in the stream's order and of its types, as a payload; check them with `problem_of` first."""
    stream = schema.stream
    if stream.codec == "bytes":
        return fields[0]
    if stream.codec == "json":
        named = [column.alias(name) for column, name in zip(fields, schema.names, strict=True)]
        return F.to_json(F.struct(*named), {"ignoreNullFields": "false"}).cast("binary")
    named = [_never_null(column, field).alias(field.name) for column, field in zip(fields, schema.fields, strict=True)]
    return to_avro(F.struct(*named), json.dumps(stream.avro_schema()))


def problem_of(fields: Sequence[Column], schema: StreamSchema) -> Column:
    """What keeps the fields from being encoded, as a sentence; null if nothing does."""
    problem: Column = F.lit(None).cast("string")
    for column, field in reversed(list(zip(fields, schema.fields, strict=True))):
        told = f"field {field.name} of stream {schema.stream.name}"
        if schema.stream.codec == "json" and isinstance(field.dataType, DoubleType | FloatType):
            problem = F.when(~(F.abs(column) <= _LARGEST), F.lit(f"{told} is no number that JSON has")).otherwise(
                problem
            )
        if not field.nullable:
            problem = F.when(column.isNull(), F.lit(f"{told} is null, which it may not be")).otherwise(problem)
    return problem


def _never_null(column: Column, field: StructField) -> Column:
    # Rows with a null here are failed before they are written, but Spark warns of a column that might hold one.
    kind = field.dataType.simpleString()
    if field.nullable or not (kind in _DEFAULTS or kind == "binary"):
        return column
    return F.coalesce(column, F.lit(b"") if kind == "binary" else F.lit(_DEFAULTS[kind]).cast(field.dataType))


_WIDENING: Final = {
    "bigint": ("tinyint", "smallint", "int"),
    "int": ("tinyint", "smallint"),
    "double": ("float", "tinyint", "smallint", "int"),
}


def fits(given: DataType, wanted: DataType) -> bool:
    """Whether a column of one type can be emitted as another without losing anything."""
    return _bare(given) == _bare(wanted) or given.simpleString() in _WIDENING.get(wanted.simpleString(), ())


def _bare(kind: DataType) -> str:
    # `simpleString` leaves nullability out, which is checked row by row.
    return kind.simpleString()

"""The fields of a stream as columns of a DataFrame: their types in Arrow and Spark; payloads into columns, and back."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import types as spark

from spark_jobs.errors import ComponentRefusedError
from tuple_tree.arrow_packs import PackCodec
from tuple_tree.errors import WireError
from tuple_tree.payloads import payload_codec
from tuple_tree.streams import StreamDeclaration

ColumnType = tuple[Any, spark.DataType]
"""A type of Arrow, and the type of Spark for it."""

_PRIMITIVES: Final[Mapping[str, ColumnType]] = {
    "string": (pa.string(), spark.StringType()),
    "bytes": (pa.binary(), spark.BinaryType()),
    "int": (pa.int32(), spark.IntegerType()),
    "long": (pa.int64(), spark.LongType()),
    "float": (pa.float32(), spark.FloatType()),
    "double": (pa.float64(), spark.DoubleType()),
    "boolean": (pa.bool_(), spark.BooleanType()),
}
_LOGICAL: Final[Mapping[str, ColumnType]] = {
    "timestamp-millis": (pa.timestamp("us", "UTC"), spark.TimestampType()),
    "timestamp-micros": (pa.timestamp("us", "UTC"), spark.TimestampType()),
    "date": (pa.date32(), spark.DateType()),
    "uuid": _PRIMITIVES["string"],
}


def column_type(avro: Any) -> ColumnType:
    """The type of a DataFrame's column for an Avro type."""
    match avro:
        case str() if avro in _PRIMITIVES:
            return _PRIMITIVES[avro]
        case list():
            others = [branch for branch in avro if branch != "null"]
            if len(others) == 1:
                return column_type(others[0])
        case {"logicalType": "decimal", "precision": precision}:
            scale = avro.get("scale", 0)
            return pa.decimal128(precision, scale), spark.DecimalType(precision, scale)
        case {"logicalType": logical} if logical in _LOGICAL:
            return _LOGICAL[logical]
        case {"type": "record", "fields": fields}:
            members = [(field["name"], *column_type(field["type"])) for field in fields]
            arrow = pa.struct([(name, type_) for name, type_, _ in members])
            return arrow, spark.StructType([spark.StructField(name, type_) for name, _, type_ in members])
        case {"type": "array", "items": items}:
            item, spark_item = column_type(items)
            return pa.list_(item), spark.ArrayType(spark_item)
        case {"type": "map", "values": values}:
            item, spark_item = column_type(values)
            return pa.map_(pa.string(), item), spark.MapType(spark.StringType(), spark_item)
        case {"type": "enum"}:
            return _PRIMITIVES["string"]
        case {"type": "fixed"}:
            return _PRIMITIVES["bytes"]
        case {"type": kind}:
            return column_type(kind)
    raise ComponentRefusedError(f"Avro type {avro!r} has no type in Spark: declare one type, with null if need be")


def arrow_schema(stream: StreamDeclaration) -> Any:
    return pa.schema([(field.name, column_type(field.type)[0]) for field in stream.fields])


def spark_fields(stream: StreamDeclaration) -> dict[str, spark.DataType]:
    return {field.name: column_type(field.type)[1] for field in stream.fields}


def without_rows(batch: Any, rows: Collection[int]) -> Any:
    """A record batch without some of its rows."""
    return batch.take(pa.array(np.delete(np.arange(batch.num_rows), list(rows)))) if rows else batch


class FrameCodec:
    """Turns payloads of a stream into columns of a DataFrame, and columns into payloads.

    `packs` has the stream's columns as in a pack, also of a stream with one tuple a record.
    """

    def __init__(self, stream: StreamDeclaration) -> None:
        self.stream = stream
        self.schema = arrow_schema(stream)
        self.packs = PackCodec(stream)
        self._codec = payload_codec(stream)
        self.is_packed = isinstance(self._codec, PackCodec)

    def decode(self, payload: bytes) -> tuple[Any, Mapping[int, WireError]]:
        """The columns of a payload, a row a tuple, and what is wrong with rows that cannot be read, by their number.

        Raises `WireError` if it is not a payload of the stream.
        """
        if not self.is_packed:
            rows, errors = self._codec.decode(payload)
            return self._framed(rows), errors
        batch = self.packs.decode_batch(payload)
        if all(map(_is_native, batch.schema.types, self.schema.types)):
            return pa.record_batch(list(map(_cast, batch.columns, self.schema.types)), self.schema), {}
        rows, errors = self.packs.readable(batch)
        return self._framed(rows), errors

    def decode_each(self, payloads: Sequence[bytes | None], *, alone: bool = False) -> tuple[Any, dict[int, str]]:
        """The columns of payloads of one tuple each, and the errors of unreadable payloads.

        `alone` makes columns of each row on its own as well, to find those whose values do not fit.
        """
        rows: list[Sequence[Any]] = []
        errors: dict[int, str] = {}
        for number, payload in enumerate(payloads):
            try:
                rows.append(self._only(payload))
                if alone:
                    self._framed(rows[-1:])
            except WireError as error:
                rows[number:] = [()]
                errors[number] = error.detail
        try:
            return self._framed(rows), errors
        except WireError:
            return self.decode_each(payloads, alone=True)

    def _only(self, payload: bytes | None) -> Sequence[Any]:
        if payload is None:
            raise WireError("bad-payload", "the message has no value")
        rows, errors = self._codec.decode(payload)
        for error in errors.values():
            raise error
        if len(rows) != 1:
            raise WireError("bad-payload", f"a message of a spout is one tuple, and this one has {len(rows)}")
        return rows[0]

    def _framed(self, rows: Sequence[Sequence[Any]]) -> Any:
        empty = (None,) * len(self.schema)
        columns = list(zip(*[row or empty for row in rows], strict=True)) or [()] * len(self.schema)
        try:
            made = [pa.array(values, type=type_) for values, type_ in zip(columns, self.schema.types, strict=True)]
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise WireError("bad-payload", f"the value does not match the field's type: {error}") from error
        return pa.record_batch(made, schema=self.schema)

    def pack(self, columns: Any) -> tuple[Any, dict[int, str]]:
        """The record batch of the rows that fit the stream, as packs have them, and why the others do not fit."""
        unfit: dict[int, str] = {}
        for field in self.stream.fields:
            column = columns.column(field.name)
            if column.null_count and not _is_nullable(field.type):
                places = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist()
                message = f"field {field.name} of stream {self.stream.name} is null, which it may not be"
                unfit |= dict.fromkeys(places, message)
        try:
            return self._packed(without_rows(columns, unfit)), unfit
        except Exception:  # noqa: BLE001 - of Arrow and fastavro
            unfit |= self._unfit(columns, np.delete(np.arange(columns.num_rows), list(unfit)))
            return self._packed(without_rows(columns, unfit)), unfit

    def _unfit(self, columns: Any, rows: Any) -> dict[int, str]:
        """The rows that do not fit the stream, found by bisection, and why."""
        try:
            self._packed(columns.take(pa.array(rows)))
        except Exception as error:  # noqa: BLE001 - as above
            if len(rows) == 1:
                return {int(rows[0]): f"it does not fit stream {self.stream.name}: {type(error).__name__}: {error}"}
            one, other = np.array_split(rows, 2)
            return self._unfit(columns, one) | self._unfit(columns, other)
        return {}

    def _packed(self, columns: Any) -> Any:
        wanted = self.packs.schema
        made = [
            _cast(column, field.type)
            if _is_native(field.type, column.type)
            else self.packs.embedded(at, _values(column))
            for at, (column, field) in enumerate(zip(columns.columns, wanted, strict=True))
        ]
        batch = self.packs.batch(pa.record_batch(made, schema=wanted))
        # Spark makes text of any bytes, and readers refuse a pack with text that is not UTF-8.
        batch.validate(full=True)
        if not self.is_packed:
            for row in self.packs.rows(batch):
                self._codec.row(row)
        return batch

    def payloads(self, batch: Any) -> list[bytes]:
        """The payload of each row of a record batch as `pack` makes it, for records of one tuple."""
        if self.is_packed:
            return [self.packs.encode(batch.slice(row, 1)) for row in range(batch.num_rows)]
        return [self._codec.encode([self._codec.row(row)]) for row in self.packs.rows(batch)]


def _is_nullable(avro: Any) -> bool:
    return avro == "null" or (isinstance(avro, list) and "null" in avro)


def _is_native(pack_type: Any, frame: Any) -> bool:
    """Whether Arrow itself converts one into the other; else a pack has the Avro body of each value."""
    return bool(pack_type == frame or (pa.types.is_timestamp(pack_type) and pa.types.is_timestamp(frame)))


def _cast(column: Any, type_: Any) -> Any:
    # A cast to its own type takes ten microseconds, for each column of each pack.
    return column if column.type == type_ else column.cast(type_)


def _values(column: Any) -> list[Any]:
    """The values of a column as fastavro takes them."""
    values: list[Any] = column.to_pylist()
    return [None if value is None else dict(value) for value in values] if pa.types.is_map(column.type) else values

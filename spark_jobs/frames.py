"""The fields of a stream as columns of a DataFrame: their types in Spark and Arrow, and the way into packs and back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from spark_jobs.errors import ComponentRefusedError
from tuple_tree.errors import WireError
from tuple_tree.payloads import PackCodec, payload_codec
from tuple_tree.streams import Stream

_PRIMITIVES: Final = {
    "string": (pa.string(), "string"),
    "bytes": (pa.binary(), "binary"),
    "int": (pa.int32(), "int"),
    "long": (pa.int64(), "bigint"),
    "float": (pa.float32(), "float"),
    "double": (pa.float64(), "double"),
    "boolean": (pa.bool_(), "boolean"),
}
_LOGICAL: Final = {
    "timestamp-millis": pa.timestamp("us", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "date": pa.date32(),
    "uuid": pa.string(),
}
_DDL: Final[Mapping[Any, str]] = {pa.date32(): "date", **dict(_PRIMITIVES.values())}


def frame_type(avro: Any) -> Any:
    """The Arrow type of a DataFrame's column for an Avro type."""
    if isinstance(avro, str):
        if avro in _PRIMITIVES:
            return _PRIMITIVES[avro][0]
    elif isinstance(avro, list):
        others = [branch for branch in avro if branch != "null"]
        if len(others) == 1:
            return frame_type(others[0])
    else:
        return _complex_type(avro)
    raise ComponentRefusedError(f"Avro type {avro!r} has no type in Spark: declare one type, with null if need be")


def _complex_type(avro: Mapping[str, Any]) -> Any:
    logical, kind = avro.get("logicalType"), avro.get("type")
    if logical == "decimal":
        return pa.decimal128(avro["precision"], avro.get("scale", 0))
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    match kind:
        case "record":
            return pa.struct([(field["name"], frame_type(field["type"])) for field in avro["fields"]])
        case "array":
            return pa.list_(frame_type(avro["items"]))
        case "map":
            return pa.map_(pa.string(), frame_type(avro["values"]))
        case "enum":
            return pa.string()
        case "fixed":
            return pa.binary()
        case _:
            return frame_type(kind)


def ddl_of(type_: Any) -> str:
    """What Spark calls an Arrow type."""
    if pa.types.is_timestamp(type_):
        return "timestamp"
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    if pa.types.is_struct(type_):
        return f"struct<{', '.join(f'{field.name}: {ddl_of(field.type)}' for field in type_)}>"
    if pa.types.is_map(type_):
        return f"map<{ddl_of(type_.key_type)}, {ddl_of(type_.item_type)}>"
    if pa.types.is_list(type_):
        return f"array<{ddl_of(type_.value_type)}>"
    return _DDL[type_]


@dataclass(frozen=True)
class StreamFrame:
    """A stream as columns of a DataFrame; picklable, for the executors."""

    stream: Stream

    @property
    def schema(self) -> Any:
        """The columns, by name."""
        return pa.schema([(field.name, frame_type(field.type)) for field in self.stream.fields])

    @property
    def nullable(self) -> tuple[bool, ...]:
        """Whether each field may be null."""
        return tuple(_nullable(field.type) for field in self.stream.fields)


class FrameCodec:
    """Turns payloads of a stream into columns of a DataFrame, and columns into payloads.

    `packs` has the stream's columns as in a pack, also of a stream with one tuple a record.
    """

    def __init__(self, frame: StreamFrame) -> None:
        self._schema = frame.schema
        self._codec = payload_codec(frame.stream)
        self.packs = PackCodec(frame.stream)
        self.is_packed = isinstance(self._codec, PackCodec)

    def decode(self, payload: bytes) -> tuple[Any, Mapping[int, WireError]]:
        """The columns of a payload, a row a tuple, and what is wrong with rows that cannot be read, by their number.

        Raises `WireError` if it is no payload of the stream.
        """
        if not self.is_packed:
            rows, errors = self._codec.decode(payload)
            return self._framed(rows), errors
        batch = self.packs.decode_batch(payload)
        if all(map(_is_native, batch.schema.types, self._schema.types)):
            return pa.record_batch(list(map(_cast, batch.columns, self._schema.types)), self._schema), {}
        rows, errors = self.packs.readable(batch)
        return self._framed(rows), errors

    def decode_each(self, payloads: Sequence[bytes | None]) -> tuple[Any, dict[int, WireError]]:
        """The columns of payloads of one tuple each, and what is wrong with those that cannot be read."""
        rows: list[Sequence[Any]] = []
        errors: dict[int, WireError] = {}
        for number, payload in enumerate(payloads):
            try:
                rows.append(self._only(payload))
            except WireError as error:
                rows.append(())
                errors[number] = error
        try:
            return self._framed(rows), errors
        except WireError:
            for number, row in enumerate(rows):
                try:
                    self._framed([row])
                except WireError as error:
                    rows[number] = ()
                    errors[number] = error
            return self._framed(rows), errors

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
        empty = (None,) * len(self._schema)
        columns = list(zip(*[row or empty for row in rows], strict=True)) or [()] * len(self._schema)
        try:
            made = [pa.array(values, type=type_) for values, type_ in zip(columns, self._schema.types, strict=True)]
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise WireError("bad-payload", f"a value is none of its field: {error}") from error
        return pa.record_batch(made, schema=self._schema)

    def pack(self, columns: Any) -> Any:
        """The record batch of some rows, as packs have them.

        Raises an exception of Arrow or fastavro if a value does not fit.
        """
        wanted = self.packs.schema
        made = [
            _cast(column, field.type)
            if _is_native(field.type, column.type)
            else self.packs.embedded(at, _values(column))
            for at, (column, field) in enumerate(zip(columns.columns, wanted, strict=True))
        ]
        batch = self.packs.batch(pa.record_batch(made, schema=wanted))
        # Spark makes text of any bytes, and readers refuse a pack with text that is no UTF-8.
        batch.validate(full=True)
        if not self.is_packed:
            for row in self.packs.rows(batch):
                self._codec.row(row)
        return batch

    def payloads(self, batch: Any) -> list[bytes]:
        """The payload of each row of a record batch as `pack` makes it, for records of one tuple."""
        return [self._codec.encode([self._codec.row(row)]) for row in self.packs.rows(batch)]


def _nullable(avro: Any) -> bool:
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

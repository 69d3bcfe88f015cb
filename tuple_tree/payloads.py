"""Payloads: how a record carries the values of tuples, by the codec of their stream; see `schemas/README.md`.

A pack, of codec `arrow`, has one or more tuples (`arrow_packs`). The other codecs have one tuple a record.
"""

import datetime
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Union

import fastavro

from tuple_tree.errors import WireError
from tuple_tree.fields import Column, all_fit, avro_body, plain, read_avro_body
from tuple_tree.packs import MAX_ROWS
from tuple_tree.state_fields import quick_writer
from tuple_tree.streams import StreamDeclaration, Values

if TYPE_CHECKING:
    from tuple_tree.arrow_packs import PackCodec

_NO_ERRORS: Final[Mapping[int, WireError]] = {}


class _SingleCodec(ABC):
    """A codec of one tuple a record, which is encoded when it is emitted; `PackCodec` describes the methods."""

    max_rows = 1

    def __init__(self, stream: StreamDeclaration) -> None:
        self._names = stream.field_names
        self._columns = [Column(name, type_) for name, type_ in stream.field_types.items()]

    @abstractmethod
    def row(self, values: Sequence[Any]) -> bytes: ...

    def is_row(self, values: Values) -> bool:  # noqa: ARG002 - `encode` takes payloads
        return False

    def encode(self, rows: Sequence[Any]) -> bytes:
        payload: bytes
        (payload,) = rows
        return payload

    def decode(self, payload: bytes) -> tuple[list[Values], Mapping[int, WireError]]:
        return [self._values(payload)], _NO_ERRORS

    def alone(self, payload: bytes, index: int) -> bytes:  # noqa: ARG002 - there is only one
        return payload

    @abstractmethod
    def _values(self, payload: bytes) -> Values: ...


class LocalCodec:
    """The codec of a stream that only chained bolts receive: values of the fields' types are passed as they are.

    `PackCodec` describes the methods.
    """

    max_rows = MAX_ROWS

    def __init__(self, stream: StreamDeclaration) -> None:
        self._codec = payload_codec(stream)
        columns = [Column(name, type_) for name, type_ in stream.field_types.items()]
        self.is_row = all_fit(columns, by_class=True)

    def row(self, values: Sequence[Any]) -> Values:
        """The values as a bolt would receive them through Kafka; raises the errors of the stream's codec."""
        codec: Any = self._codec
        made = [codec.row(values)]
        rows = codec.rows(codec.columns(made)) if codec.max_rows > 1 else decode_tuples(codec, codec.encode(made))
        row: Values = rows[0]
        return row

    def batch(self, data: Any) -> Any:
        return self._codec.batch(data)  # type: ignore[union-attr]

    def readable(self, batch: Any) -> tuple[list[Values], Mapping[int, WireError]]:
        return self._codec.readable(batch)  # type: ignore[union-attr]

    def encode(self, rows: Any) -> bytes:
        """The payload of rows that a chained bolt has received, for a dead letter."""
        return encode_tuples(self._codec, rows)


class ObjectCodec(LocalCodec):
    """The codec of a local stream whose rows are objects of a class, which are passed as they are.

    Args:
        values_of: returns the values of an object.
        object_of: returns the object with some values.
    """

    def __init__(
        self, stream: StreamDeclaration, values_of: Callable[[Any], Values], object_of: Callable[[Sequence[Any]], Any]
    ) -> None:
        super().__init__(stream)
        self.values_of, self.is_row = values_of, _is_no_row
        self.row = object_of  # type: ignore[assignment, method-assign]

    def encode(self, rows: Any) -> bytes:
        return super().encode([*map(self.values_of, rows)])


def _is_no_row(values: Values) -> bool:  # noqa: ARG001 - values are not an object
    return False


PayloadCodec = Union["PackCodec", _SingleCodec]  # turns rows into the payload of a record, and back


class _AvroCodec(_SingleCodec):
    def __init__(self, stream: StreamDeclaration) -> None:
        super().__init__(stream)
        self._schema = fastavro.parse_schema(stream.avro_schema())
        self._fit = all_fit(self._columns)

    def row(self, values: Sequence[Any]) -> bytes:
        if not self._fit(values):  # type: ignore[arg-type]
            values = [column.checked(value) for column, value in zip(self._columns, values, strict=True)]
        return avro_body(self._schema, dict(zip(self._names, values, strict=True)))

    def _values(self, payload: bytes) -> Values:
        try:
            return tuple(read_avro_body(self._schema, payload).values())
        except Exception as error:
            raise WireError("bad-payload", f"not the stream's Avro record: {error!r}") from error


class _JsonCodec(_SingleCodec):
    def __init__(self, stream: StreamDeclaration) -> None:
        super().__init__(stream)
        self._quick = quick_writer(stream.fields, is_single=False, is_ascii=True)
        self._floats = [field.name for field in stream.fields if field.type in ("double", "float")]

    def row(self, values: Sequence[Any]) -> bytes:
        quick: Any = self._quick
        if quick is not None and len(values) == len(self._names) and (text := quick(values)) is not None:
            return text.encode()  # type: ignore[no-any-return]
        for column, value in zip(self._columns, values, strict=True):
            column.check_limits(value)
        # NaN and infinity are not JSON.
        record = dict(zip(self._names, values, strict=True))
        return json.dumps(record, separators=(",", ":"), allow_nan=False, default=_json_value).encode()

    def _values(self, payload: bytes) -> Values:
        try:
            record = json.loads(payload)
            for name in self._floats:
                if record[name].__class__ is int:  # many programs write 5.0 as 5
                    record[name] = float(record[name])
            return tuple(record[name] for name in self._names)
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
            raise WireError("bad-payload", f"not a JSON object with the stream's fields: {error!r}") from error


def _json_value(value: Any) -> Any:
    """A value that JSON has no type for as one that it has, if it is one of numpy's scalars."""
    if (made := plain(value)) is not value:
        return made
    if isinstance(value, datetime.date):
        raise TypeError("JSON has no type for times: pass text, such as value.isoformat(), or use codec arrow or avro")
    raise TypeError(f"JSON has no type for a {type(value).__name__}")


class _BytesCodec(_SingleCodec):
    def row(self, values: Sequence[Any]) -> bytes:
        (value,) = values
        if not isinstance(value, bytes):
            raise TypeError(f"field {self._names[0]!r} of a bytes stream must be bytes, not {type(value).__name__}")
        return value

    def _values(self, payload: bytes) -> Values:
        return (payload,)


_SINGLE_CODECS: Final[dict[str, Callable[[StreamDeclaration], _SingleCodec]]] = {
    "avro": _AvroCodec,
    "json": _JsonCodec,
    "bytes": _BytesCodec,
}


def payload_codec(stream: StreamDeclaration) -> PayloadCodec:
    if stream.codec == "arrow":
        # Arrow takes 35 MB of memory, which a process without such a stream does not need.
        from tuple_tree.arrow_packs import PackCodec

        return PackCodec(stream)
    return _SINGLE_CODECS[stream.codec](stream)


def encode_tuples(codec: PayloadCodec, tuples: Sequence[Sequence[Any]]) -> bytes:
    return codec.encode([codec.row(values) for values in tuples])


def decode_tuples(codec: PayloadCodec, payload: bytes) -> list[Values]:
    """The values of all tuples of a payload. Raises `WireError` if one of them cannot be read."""
    rows, errors = codec.decode(payload)
    for error in errors.values():
        raise error
    return rows

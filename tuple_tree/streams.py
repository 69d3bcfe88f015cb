"""Streams: the declared fields of what a component emits, and how a payload carries them.

The codecs, by name:

- `avro` (default): the bare Avro body of a record whose fields are the stream's, in order; its schema stands in the
  manifest.
- `json`: one JSON object.
- `bytes`: the one field of the stream as it is.
"""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, cast

import fastavro
from pydantic import BaseModel, ConfigDict, model_validator

from tuple_tree.errors import WireError
from tuple_tree.names import check_field, check_name

DEFAULT_STREAM: Final = "default"

Values = tuple[Any, ...]
"""The values of a tuple, in the order of its stream's fields."""

_AVRO_TYPES: Final[dict[object, Any]] = {
    str: "string",
    int: "long",
    float: "double",
    bool: "boolean",
    bytes: "bytes",
}


class Field(BaseModel):
    """A field of a stream.

    Attributes:
        name: letters, digits and underscores.
        type: an Avro type: a primitive's name such as `string` or `long`, or a schema as JSON.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    type: Any = "string"


class Stream(BaseModel):
    """A stream that a component emits.

    Attributes:
        name: unique within its component.
        fields: in the order in which values are emitted.
        codec: how the payload carries them.
        direct: whether who emits to it names the task that receives the tuple.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = DEFAULT_STREAM
    fields: tuple[Field, ...]
    codec: Literal["avro", "json", "bytes"] = "avro"
    direct: bool = False

    @model_validator(mode="after")
    def _check(self) -> "Stream":
        check_name("stream", self.name)
        names = self.field_names
        if not names:
            raise ValueError(f"stream {self.name!r} has no fields")
        for name in names:
            check_field(name)
        if len(set(names)) != len(names):
            raise ValueError(f"stream {self.name!r} has a field twice: {', '.join(names)}")
        if self.codec == "bytes" and len(names) != 1:
            raise ValueError(
                f"stream {self.name!r} has codec bytes, which carries exactly one field, but it has {len(names)}"
            )
        if self.codec == "bytes" and self.fields[0].type != "bytes":
            raise ValueError(f"stream {self.name!r} has codec bytes, so the type of field {names[0]!r} must be bytes")
        try:
            fastavro.parse_schema(self.avro_schema())
        except Exception as error:  # fastavro raises UnknownType, SchemaParseException, KeyError, TypeError and more
            raise ValueError(
                f"stream {self.name!r} has a field whose type is no Avro type ({type(error).__name__}: {error}): use "
                "str, int, float, bool, bytes or an Avro schema"
            ) from error
        return self

    @property
    def field_names(self) -> tuple[str, ...]:
        """The names of the fields, in order."""
        return tuple(field.name for field in self.fields)

    def avro_schema(self) -> dict[str, Any]:
        """The Avro schema of the payload."""
        return {
            "type": "record",
            "name": "Tuple",
            "fields": [{"name": field.name, "type": field.type} for field in self.fields],
        }


def declare(
    fields: Mapping[str, Any] | Sequence[str],
    name: str = DEFAULT_STREAM,
    codec: str = "avro",
    *,
    direct: bool = False,
) -> Stream:
    """Declares a stream the short way.

    Args:
        fields: names with their types (`str`, `int`, `float`, `bool`, `bytes`, or an Avro type), or names alone, or
            one name, which are text, or bytes where the codec is bytes.
        name: the stream's name.
        codec: `avro`, `json` or `bytes`.
        direct: whether it is emitted to with `emit_direct`, which names the task that receives the tuple.

    Raises:
        ValueError: if the stream cannot be.
    """
    if isinstance(fields, str):
        fields = (fields,)
    if isinstance(fields, Mapping):
        pairs = list(fields.items())
    else:
        pairs = [(field, bytes if codec == "bytes" else str) for field in fields]
    declared = tuple(Field(name=field, type=_AVRO_TYPES.get(_hashable(kind), kind)) for field, kind in pairs)
    return Stream(name=name, fields=declared, codec=cast(Literal["avro", "json", "bytes"], codec), direct=direct)


def _hashable(kind: Any) -> object:
    return kind if isinstance(kind, type) else None


class PayloadCodec(Protocol):
    """Turns the values of a tuple into the payload of a record, and back."""

    def encode(self, values: Sequence[Any]) -> bytes:
        """Raises `ValueError` or `TypeError` where the values do not fit the stream."""
        ...

    def decode(self, payload: bytes) -> Values:
        """Raises `WireError` where the payload is not one of the stream's."""
        ...


class _AvroCodec:
    def __init__(self, stream: Stream) -> None:
        self._names = stream.field_names
        self._schema = fastavro.parse_schema(stream.avro_schema())

    def encode(self, values: Sequence[Any]) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, self._schema, dict(zip(self._names, values, strict=True)))
        return out.getvalue()

    def decode(self, payload: bytes) -> Values:
        body = io.BytesIO(payload)
        try:
            record = cast(dict[str, Any], fastavro.schemaless_reader(body, self._schema, None))
        except Exception as error:  # fastavro raises EOFError, ValueError, IndexError and more
            raise WireError("bad-payload", f"not the stream's Avro record: {error!r}") from error
        if body.tell() != len(payload):
            raise WireError("bad-payload", f"{len(payload) - body.tell()} bytes follow the stream's Avro record")
        return tuple(record.values())


class _JsonCodec:
    def __init__(self, stream: Stream) -> None:
        self._names = stream.field_names

    def encode(self, values: Sequence[Any]) -> bytes:
        # Not-a-number and infinity are Python's words, and no JSON.
        said = dict(zip(self._names, values, strict=True))
        return json.dumps(said, separators=(",", ":"), allow_nan=False).encode()

    def decode(self, payload: bytes) -> Values:
        try:
            record = json.loads(payload)
            return tuple(record[name] for name in self._names)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise WireError("bad-payload", f"not a JSON object with the stream's fields: {error!r}") from error


class _BytesCodec:
    def __init__(self, stream: Stream) -> None:
        self._name = stream.field_names[0]

    def encode(self, values: Sequence[Any]) -> bytes:
        (value,) = values
        if not isinstance(value, bytes):
            raise TypeError(f"field {self._name!r} of a bytes stream must be bytes, not {type(value).__name__}")
        return value

    def decode(self, payload: bytes) -> Values:
        return (payload,)


_CODECS: Final[dict[str, Callable[[Stream], PayloadCodec]]] = {
    "avro": _AvroCodec,
    "json": _JsonCodec,
    "bytes": _BytesCodec,
}


def payload_codec(stream: Stream) -> PayloadCodec:
    """The codec of a stream's payloads."""
    return _CODECS[stream.codec](stream)

"""Streams: the declared fields of what a component emits; `tuple_tree.payloads` has their codecs."""

import datetime
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, cast

import fastavro
from fastavro.schema import UnknownType
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from tuple_tree.names import check_field, check_name

DEFAULT_STREAM: Final = "default"
Values = tuple[Any, ...]  # the values of a tuple, in the order of its stream's fields
Codec = Literal["arrow", "avro", "json", "bytes"]
SourceCodec = Literal["json", "avro"]
"""The format of the messages of a source: a JSON object, or the bare body of an Avro record, with the fields."""
_ARRAY: Final = 'a list is {"type": "array", "items": "string"}'
_WRITTEN: Final[dict[object, str]] = {
    list: _ARRAY,
    tuple: _ARRAY,
    set: _ARRAY,
    dict: 'a dict is {"type": "map", "values": "string"}',
    datetime.datetime: 'a datetime is {"type": "long", "logicalType": "timestamp-micros"}',
    datetime.date: 'a date is {"type": "int", "logicalType": "date"}',
}
_AVRO_TYPES: Final[dict[object, Any]] = {str: "string", int: "long", float: "double", bool: "boolean", bytes: "bytes"}

_NOT_JSON: Final = frozenset({"bytes", "fixed"})


class Field(BaseModel):
    """A field of a stream.

    Attributes:
        name: letters, digits and underscores.
        type: an Avro type: a primitive's name such as `string` or `long`, or a schema as JSON.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    type: Any = "string"


class StreamDeclaration(BaseModel):
    """A stream that a component emits.

    Attributes:
        name: unique within its component.
        fields: in the order in which values are emitted.
        codec: how the payload of a record in an inbox carries them.
        direct: whether who emits to it names the task that receives the tuple.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = DEFAULT_STREAM
    fields: tuple[Field, ...]
    codec: Codec = "arrow"
    direct: bool = False

    @model_validator(mode="after")
    def _check(self) -> "StreamDeclaration":
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
                f"stream {self.name!r} has a field whose type is not an Avro type ({type(error).__name__}: {error}): "
                "use str, int, float, bool, bytes or an Avro schema"
            ) from error
        return self

    @property
    def field_names(self) -> tuple[str, ...]:
        """The names of the fields, in order."""
        return tuple(field.name for field in self.fields)

    @property
    def field_types(self) -> dict[str, Any]:
        """The Avro type of each field, complete on its own: one that an earlier field names is spelled out."""
        named: dict[str, Any] = {}
        schema = cast(dict[str, Any], fastavro.parse_schema(self.avro_schema(), named))
        types = {}
        for field, parsed in zip(self.fields, schema["fields"], strict=True):
            try:
                fastavro.parse_schema(field.type)
                types[field.name] = field.type
            except UnknownType:
                types[field.name] = _spelled_out(parsed["type"], named, set())
        return types

    def avro_schema(self) -> dict[str, Any]:
        """The Avro schema of the payload."""
        return {
            "type": "record",
            "name": "Tuple",
            "fields": [{"name": field.name, "type": field.type} for field in self.fields],
        }


Streams = StreamDeclaration | Sequence[StreamDeclaration]
"""The streams of a component: one, or several in a list or a tuple."""


def as_streams(streams: Streams) -> tuple[StreamDeclaration, ...]:
    return (streams,) if isinstance(streams, StreamDeclaration) else tuple(streams)


def source_stream(stream: StreamDeclaration, codec: SourceCodec | None = None) -> StreamDeclaration | None:
    """The stream with whose codec the messages of a source are decoded, whatever codec their tuples have.

    None if its only field, text or bytes, is the value of the message. Without `codec` it is that of the stream, or
    JSON where that is `arrow`, because a message of a source is one tuple.
    """
    if codec is None:
        if len(stream.fields) == 1 and stream.fields[0].type in ("string", "bytes"):
            return None
        codec = "avro" if stream.codec == "avro" else "json"
    return stream.model_copy(update={"codec": codec})


def explain(error: ValidationError) -> str:
    """Pydantic's findings as one line for a person."""
    findings = []
    for finding in error.errors(include_url=False, include_context=False):
        where = ".".join(str(part) for part in finding["loc"])
        message = finding["msg"].removeprefix("Value error, ")
        findings.append(f"{where}: {message}" if where else message)
    return "; ".join(findings)


def _spelled_out(avro_type: Any, named: Mapping[str, Any], seen: set[str]) -> Any:
    """A parsed type in which each named type is defined where it occurs first."""
    if isinstance(avro_type, str):
        return avro_type if avro_type in seen or avro_type not in named else _spelled_out(named[avro_type], named, seen)
    if isinstance(avro_type, list):
        return [_spelled_out(branch, named, seen) for branch in avro_type]
    if "name" in avro_type:
        seen.add(avro_type["name"])
    made = dict(avro_type)
    for key in ("items", "values"):
        if key in made:
            made[key] = _spelled_out(made[key], named, seen)
    if "fields" in made:
        made["fields"] = [{**field, "type": _spelled_out(field["type"], named, seen)} for field in made["fields"]]
    return made


def declare(
    fields: Mapping[str, Any] | Sequence[str], name: str = DEFAULT_STREAM, codec: str = "arrow", *, direct: bool = False
) -> StreamDeclaration:
    """Declares a stream.

    A field may use the name of a type that an earlier field defines. Scalars of numpy count as Python's. Emitting a
    value that its field does not have raises `EmitError`; so does a datetime without a time zone, and a number that is
    too large for a 32-bit `float`. JSON does not check types.

    Raises `ValueError` if it is invalid.

    Args:
        fields: names with their types (`str`, `int`, `float`, `bool`, `bytes`, or an Avro type), or names alone, or one
            name, which are text, or bytes where the codec is bytes.
        codec: how the tuples lie in the inboxes of bolts: `arrow`, which packs up to 1,000 of them in a record; or, for
            an inbox that a program of yours reads, `avro`, `json` or `bytes`, with a record for each tuple. A pack is
            sent when it is full, after 5 ms (50 ms while many records are in flight), or at once if its task is idle
            and has nothing in flight. The codec of the messages that a spout reads is an option of the spout.
        direct: whether it is emitted to with `emit_direct`, which names the task that receives the tuple.
    """
    if isinstance(fields, str):
        fields = (fields,)
    if isinstance(fields, Mapping):
        pairs = list(fields.items())
    else:
        pairs = [(field, bytes if codec == "bytes" else str) for field in fields]
    declared = tuple(Field(name=field, type=_avro_type(name, field, kind)) for field, kind in pairs)
    try:
        return StreamDeclaration(name=name, fields=declared, codec=cast(Codec, codec), direct=direct)
    except ValidationError as error:
        raise ValueError(explain(error)) from None


def not_in_json(type_: Any) -> Any:
    """The first part of an Avro type that JSON lacks, or None."""
    if isinstance(type_, list | tuple):
        return next(filter(None, map(not_in_json, type_)), None)
    if not isinstance(type_, Mapping):
        return type_ if type_ in _NOT_JSON else None
    if "logicalType" in type_:
        return type_["logicalType"]
    inner = (type_.get("type"), type_.get("items"), type_.get("values"), *(f["type"] for f in type_.get("fields", ())))
    return next(filter(None, map(not_in_json, (each for each in inner if each is not None))), None)


def _avro_type(stream: str, field: str, kind: Any) -> Any:
    """The Avro type for what a field was declared with; raises `ValueError` for what is none."""
    if isinstance(kind, str | Mapping | list | tuple):
        return kind
    try:
        return _AVRO_TYPES[kind]
    except (KeyError, TypeError):
        shown = kind.__name__ if isinstance(kind, type) else str(kind)
        written = _WRITTEN.get(typing.get_origin(kind) or kind, 'a type and null is ["null", "string"]')
        raise ValueError(
            f"field {field!r} of stream {stream!r} has the type {shown}, which is not an Avro type: write str, int, "
            f"float, bool, bytes or an Avro type; {written}"
        ) from None

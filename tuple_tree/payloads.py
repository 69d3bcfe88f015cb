"""Payloads: how a record carries the values of tuples, by the codec of their stream; see `schemas/README.md`."""

import io
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import fastavro

from tuple_tree.errors import WireError
from tuple_tree.packs import PackCodec
from tuple_tree.streams import Stream, Values

_NO_ERRORS: Final[Mapping[int, WireError]] = {}


class _SingleCodec(ABC):
    """A codec of one tuple a record, which is encoded when it is emitted; `PackCodec` describes the methods."""

    max_rows = 1

    def __init__(self, stream: Stream) -> None:
        self._names = stream.field_names

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


PayloadCodec = PackCodec | _SingleCodec  # turns rows into the payload of a record, and back


class _AvroCodec(_SingleCodec):
    def __init__(self, stream: Stream) -> None:
        super().__init__(stream)
        self._schema = fastavro.parse_schema(stream.avro_schema())

    def row(self, values: Sequence[Any]) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, self._schema, dict(zip(self._names, values, strict=True)))
        return out.getvalue()

    def _values(self, payload: bytes) -> Values:
        body = io.BytesIO(payload)
        try:
            record = cast(dict[str, Any], fastavro.schemaless_reader(body, self._schema, None))
        except Exception as error:  # fastavro raises EOFError, ValueError, IndexError and more
            raise WireError("bad-payload", f"not the stream's Avro record: {error!r}") from error
        if body.tell() != len(payload):
            raise WireError("bad-payload", f"{len(payload) - body.tell()} bytes follow the stream's Avro record")
        return tuple(record.values())


class _JsonCodec(_SingleCodec):
    def row(self, values: Sequence[Any]) -> bytes:
        # NaN and infinity are no JSON.
        record = dict(zip(self._names, values, strict=True))
        return json.dumps(record, separators=(",", ":"), allow_nan=False).encode()

    def _values(self, payload: bytes) -> Values:
        try:
            record = json.loads(payload)
            return tuple(record[name] for name in self._names)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise WireError("bad-payload", f"not a JSON object with the stream's fields: {error!r}") from error


class _BytesCodec(_SingleCodec):
    def row(self, values: Sequence[Any]) -> bytes:
        (value,) = values
        if not isinstance(value, bytes):
            raise TypeError(f"field {self._names[0]!r} of a bytes stream must be bytes, not {type(value).__name__}")
        return value

    def _values(self, payload: bytes) -> Values:
        return (payload,)


_CODECS: Final[dict[str, Callable[[Stream], PayloadCodec]]] = {
    "arrow": PackCodec,
    "avro": _AvroCodec,
    "json": _JsonCodec,
    "bytes": _BytesCodec,
}


def payload_codec(stream: Stream) -> PayloadCodec:
    return _CODECS[stream.codec](stream)


def encode_tuples(codec: PayloadCodec, tuples: Sequence[Sequence[Any]]) -> bytes:
    return codec.encode([codec.row(values) for values in tuples])


def decode_tuples(codec: PayloadCodec, payload: bytes) -> list[Values]:
    """The values of all tuples of a payload. Raises `WireError` if one of them cannot be read."""
    rows, errors = codec.decode(payload)
    for error in errors.values():
        raise error
    return rows

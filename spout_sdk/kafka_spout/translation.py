"""How a `KafkaSpout` translates messages to tuples, and where it begins to read."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import methodcaller
from typing import Any, Final, Literal

from spout_sdk.errors import TopologyError
from spout_sdk.records import Record
from tuple_tree.errors import WireError
from tuple_tree.payloads import decode_tuples, payload_codec
from tuple_tree.streams import (
    DEFAULT_STREAM,
    SourceCodec,
    Stream,
    not_in_json,
    source_stream,
)

FirstPoll = Literal["uncommitted_earliest", "uncommitted_latest", "earliest", "latest"]
"""Storm's strategies of the first poll.

- `uncommitted_earliest`: at the committed offset; at the beginning if nothing is committed.
- `uncommitted_latest`: at the committed offset; after the last message if nothing is committed.
- `earliest`, `latest`: at the beginning or after the last message, whatever another program, an operator's tool for
  instance, has committed for the group.

What the spout itself has committed always counts: a process that is started again continues there.
"""


@dataclass(frozen=True, slots=True)
class KafkaTuple:
    """Values for a stream other than the default one.

    Attributes:
        values: one for each field of the stream.
        stream: one of the spout's streams.
    """

    values: Sequence[Any]
    stream: str = DEFAULT_STREAM


Translate = Callable[[Record], Sequence[Any] | KafkaTuple | None]
"""Returns the values of the tuple for a message; None to skip the message.

It raises `InvalidMessageError` for a message that no retry can translate.

The message gives its `topic()`, `partition()`, `offset()`, `key()`, `value()` (None for a tombstone), `headers()` and
`timestamp()`.
"""


def default_translate(streams: Sequence[Stream], codec: SourceCodec | None = None) -> Translate:
    """Decodes a message as `source_stream` says. Raises `TopologyError` if there is not exactly one stream."""
    if len(streams) != 1:
        raise TopologyError(f"a KafkaSpout with {len(streams)} streams needs translate=, which chooses a stream")
    (stream,) = streams
    decode = _decoder(stream, codec)
    return decode if stream.name == DEFAULT_STREAM else lambda record: KafkaTuple(decode(record), stream.name)


def _decoder(stream: Stream, codec: SourceCodec | None) -> Callable[[Record], Sequence[Any]]:
    of = source_stream(stream, codec)
    if of is None:
        return ValueTranslation(is_text=stream.fields[0].type == "string")
    for field in stream.fields if (of.codec, stream.codec) == ("json", "arrow") else ():
        if missing := not_in_json(field.type):
            raise TopologyError(
                f"a KafkaSpout reads JSON, and stream {stream.name!r} has field {field.name!r} of type {missing}, "
                'which JSON lacks: pass codec="avro" for bare Avro bodies, or translate=; or declare text or a number'
            )
    made = payload_codec(of)

    def decode(record: Record) -> Sequence[Any]:
        (values,) = decode_tuples(made, _value(record))
        return values

    return decode


class ValueTranslation:
    """Translates a message to its value, as bytes or as text."""

    def __init__(self, *, is_text: bool) -> None:
        self._is_text = is_text

    def __call__(self, record: Record) -> Sequence[Any]:
        value = _value(record)
        return (_text(value) if self._is_text else value,)

    def rows(self, records: Sequence[Record], *, as_objects: bool) -> list[Any]:  # noqa: ARG002 - it has no row type
        """Translates several messages, up to the first for which `__call__` raises."""
        rows: list[Any] = []
        decode = bytes.decode if self._is_text else bytes
        with suppress(Exception):  # it keeps the rows before
            rows.extend(map(decode, map(_VALUE_OF, records)))
        return [*zip(rows, strict=True)]


_VALUE_OF: Final = methodcaller("value")


def _value(record: Record) -> bytes:
    value = record.value()
    if value is None:
        raise WireError("bad-payload", "a tombstone has no value to emit: pass translate= to skip it")
    return value


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise WireError("bad-payload", f"the value is not UTF-8: {error}") from error

"""How a `KafkaSpout` translates messages to tuples, and where it begins to read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from spout_sdk.api.row_types import RowType
from spout_sdk.errors import TopologyError
from spout_sdk.kafka_spout.typed_translation import TypedTranslation, value_of
from spout_sdk.records import Record
from tuple_tree.payloads import decode_tuples, payload_codec
from tuple_tree.streams import (
    DEFAULT_STREAM,
    SourceCodec,
    StreamDeclaration,
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


def default_translate(streams: Sequence[StreamDeclaration], codec: SourceCodec | None = None) -> Translate:
    """Decodes a message as `source_stream` says. Raises `TopologyError` if there is not exactly one stream."""
    if len(streams) != 1:
        raise TopologyError(f"a KafkaSpout with {len(streams)} streams needs translate=, which chooses a stream")
    (stream,) = streams
    decode = _decoder(stream, codec)
    return decode if stream.name == DEFAULT_STREAM else lambda record: KafkaTuple(decode(record), stream.name)


def _decoder(stream: StreamDeclaration, codec: SourceCodec | None) -> Callable[[Record], Sequence[Any]]:
    of = source_stream(stream, codec)
    if of is None:
        return TypedTranslation(RowType(str if stream.fields[0].type == "string" else bytes))
    for field in stream.fields if (of.codec, stream.codec) == ("json", "arrow") else ():
        if missing := not_in_json(field.type):
            raise TopologyError(
                f"a KafkaSpout reads JSON, and stream {stream.name!r} has field {field.name!r} of type {missing}, "
                'which JSON lacks: pass codec="avro" for bare Avro bodies, or translate=; or declare text or a number'
            )
    made = payload_codec(of)

    def decode(record: Record) -> Sequence[Any]:
        (values,) = decode_tuples(made, value_of(record))
        return values

    return decode

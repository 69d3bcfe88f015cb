"""How a message of the source becomes the values of a tuple."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from spout_sdk.errors import TopologyError
from spout_sdk.records import Record
from tuple_tree.errors import WireError
from tuple_tree.payloads import decode_tuples, payload_codec
from tuple_tree.streams import DEFAULT_STREAM, Stream


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
"""Makes the values of a tuple of a message; None skips the message.

It raises `InvalidMessageError` for a message that no retry can translate.

The message gives its `topic()`, `partition()`, `offset()`, `key()`, `value()` (None for a tombstone), `headers()` and
`timestamp()`.
"""


def default_translate(streams: Sequence[Stream]) -> Translate:
    """One field of text or bytes is the value of the message; anything else is read with the stream's codec.

    With that of Avro, if the stream's is `arrow`, since a message of a source is one tuple.

    Raises:
        TopologyError: if there is not exactly one stream.
    """
    if len(streams) != 1:
        raise TopologyError(f"a KafkaSpout with {len(streams)} streams needs translate=, which decides what goes where")
    stream = streams[0]
    name = stream.name
    kind = stream.fields[0].type if len(stream.fields) == 1 else None
    single = stream.model_copy(update={"codec": "avro"}) if stream.codec == "arrow" else stream
    codec = payload_codec(single)

    def translate(record: Record) -> Sequence[Any] | KafkaTuple:
        value = record.value()
        if value is None:
            raise WireError("bad-payload", "a tombstone has no value to emit: pass translate= to skip it")
        values: Sequence[Any]
        if kind == "string":
            try:
                values = (value.decode(),)
            except UnicodeDecodeError as error:
                raise WireError("bad-payload", f"the value is not UTF-8: {error}") from error
        elif kind == "bytes":
            values = (value,)
        else:
            (values,) = decode_tuples(codec, value)
        return values if name == DEFAULT_STREAM else KafkaTuple(values, name)

    return translate

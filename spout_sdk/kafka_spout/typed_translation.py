"""How a `KafkaSpout` with a row type decodes messages."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import methodcaller
from typing import Any, Final

from spout_sdk.api.row_members import shown_type, without_none
from spout_sdk.api.row_types import RowType, json_decoder
from spout_sdk.errors import TopologyError
from spout_sdk.kafka_spout.message import message_of, value_type
from spout_sdk.records import Record
from tuple_tree.errors import WireError
from tuple_tree.payloads import decode_tuples, payload_codec
from tuple_tree.streams import SourceCodec

_VALUE_OF: Final = methodcaller("value")


class TypedTranslation:
    """Decodes a message as an object of a type.

    Args:
        codec: the format of the messages; None for JSON, or for the value itself if the type is `str` or `bytes`.

    Raises:
        TopologyError: if JSON lacks the type.
    """

    def __init__(self, row_type: RowType[Any], codec: SourceCodec | None = None) -> None:
        self._row_type = row_type
        of_message = value_type(row_type.type)
        self._is_message = of_message is not None
        value, self._takes_tombstones = without_none(of_message) if self._is_message else (row_type.type, False)
        self._decode = _decoder(RowType(value), codec)

    def __call__(self, record: Record) -> Sequence[Any]:
        """The values of a message; raises `WireError` for a message that does not fit."""
        try:
            return self._row_type.values(self._object(record))
        except (MemoryError, WireError):  # with more memory the message may fit
            raise
        except Exception as error:  # of msgspec, a RecursionError, or of the class of the rows
            raise WireError("bad-payload", f"it does not fit {shown_type(self._row_type.type)}: {error}") from error

    def rows(self, records: Sequence[Record], *, as_objects: bool) -> list[Any]:
        """Objects of several messages, or their values, up to the first message for which `__call__` raises."""
        made = map(self._object, records) if self._is_message else map(self._decode, map(_VALUE_OF, records))
        rows: list[Any] = []
        with suppress(Exception):  # it keeps the rows before
            rows.extend(made if as_objects else map(self._row_type.values, made))
        return rows

    def _object(self, record: Record) -> Any:
        is_none = self._takes_tombstones and record.value() is None
        value = None if is_none else self._decode(value_of(record))
        return message_of(record, value) if self._is_message else value


def _decoder(row_type: RowType[Any], codec: SourceCodec | None) -> Callable[[bytes], Any]:
    if codec == "avro":
        made = payload_codec(row_type.stream.model_copy(update={"codec": "avro"}))
        return lambda value: row_type.row(decode_tuples(made, value)[0])
    if codec is None and row_type.type is bytes:
        return bytes
    if codec is None and row_type.type is str:
        return bytes.decode
    try:
        return json_decoder(row_type.type)
    except TypeError as error:  # a type that msgspec does not know
        raise TopologyError(
            f"messages cannot be decoded from JSON as {shown_type(row_type.type)}: {error}; pass translate= or "
            'codec="avro"'
        ) from None


def value_of(record: Record) -> bytes:
    """The value of a message; raises `WireError` for a tombstone."""
    value = record.value()
    if value is None:
        raise WireError("bad-payload", "a tombstone has no value: pass translate= to skip it, without value= or codec=")
    return value

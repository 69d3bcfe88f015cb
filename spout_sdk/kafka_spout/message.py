"""`KafkaMessage`: a message with its key, headers and time, as a row."""

import datetime
import typing
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from spout_sdk.records import Record

T = TypeVar("T")

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True, slots=True)
class KafkaMessage(Generic[T]):
    """A message of a `KafkaSpout`, as the row of its stream.

        def items(message: KafkaMessage[Order]) -> Iterator[Item]: ...

        shop.spout("orders", KafkaSpout("orders", value=KafkaMessage[Order])).step(items)

    Attributes:
        value: decoded as the type in brackets says; with `KafkaMessage[Order | None]`, None for a tombstone.
        key: as it is.
        headers: pairs of name and value, in order.
        timestamp: when the message was made, or was appended to the log, as the topic says.
        topic, partition, offset: its position.
    """

    value: T
    key: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp: datetime.datetime
    topic: str
    partition: int
    offset: int


def value_type(row_type: Any) -> Any:
    """The type of the value of `KafkaMessage[...]`; None for another type."""
    return typing.get_args(row_type)[0] if typing.get_origin(row_type) is KafkaMessage else None


def message_of(record: Record, value: Any) -> KafkaMessage[Any]:
    """The message of a record, with its decoded value."""
    headers = [
        (name, header.encode() if isinstance(header, str) else header) for name, header in record.headers() or ()
    ]
    timestamp = _EPOCH + datetime.timedelta(milliseconds=max(0, record.timestamp()[1]))
    topic, partition, offset = record.topic(), record.partition(), record.offset()
    return KafkaMessage(value, record.key(), headers, timestamp, topic or "", partition or 0, offset or 0)

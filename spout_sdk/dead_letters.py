"""Dead letters: records that a task could not use, kept as they were."""

from typing import Any, Final

from spout_sdk.records import Delivered, NoRecord, Record, Sink
from spout_sdk.tuples import Tuple
from tuple_tree.anchors import ANCHOR_COUNTS_HEADER, ANCHORS_HEADER, anchor_headers
from tuple_tree.dead_letters import dead_letter_headers
from tuple_tree.errors import WireError

_TOO_LARGE: Final = 10
"""Kafka's code for a record that is larger than its topic takes."""


class RecordOfOne(NoRecord):
    """One tuple of a record, as a record that carries only this one.

    Args:
        tuple_: which.
    """

    __slots__ = ("_headers", "_timestamp", "_value", "index")

    def __init__(self, tuple_: Tuple) -> None:
        record, codec = tuple_.record, tuple_.pack.stream.codec
        super().__init__(record.topic(), record.partition(), record.offset())
        payload = record.value()
        self.index = tuple_.index
        self._value = None if payload is None or codec is None else codec.alone(payload, tuple_.index)
        others = [
            (name, value)
            for name, value in record.headers() or ()
            if name not in (ANCHORS_HEADER, ANCHOR_COUNTS_HEADER)
        ]
        self._headers = anchor_headers([tuple_.edges]) + others
        self._timestamp = record.timestamp()

    def value(self) -> bytes | None:
        """The tuple's payload."""
        return self._value

    def headers(self) -> Any:
        """Those of the record, but for the anchors, which are the tuple's."""
        return self._headers

    def timestamp(self) -> tuple[int, int]:
        """That of the record."""
        return self._timestamp


def send_dead_letter(sink: Sink, topic: str, record: Record, error: WireError, by: str, on_delivery: Delivered) -> None:
    """Sends a record to the dead letters: key, value and headers as they were, and why.

    Where it does not fit any more with our headers, only these are sent: they say where it lies.

    Args:
        sink: where to send.
        topic: `{topology}.dead-letters`.
        record: as it was read.
        error: what is wrong with it.
        by: the task that could not use it.
        on_delivery: called with the delivery report.
    """
    partition, offset = record.partition(), record.offset()
    headers = dead_letter_headers(
        str(record.topic()),
        -1 if partition is None else partition,
        -1 if offset is None else offset,
        reason=error.reason,
        detail=error.detail,
        by=by,
        index=record.index if isinstance(record, RecordOfOne) else None,
    )

    def delivered(failure: Any, message: Any) -> None:
        if getattr(failure, "code", lambda: None)() == _TOO_LARGE:
            sink.send_reported(topic, 0, None, None, [*headers], on_delivery)
        else:
            on_delivery(failure, message)

    sink.send_reported(topic, 0, record.key(), record.value(), [*(record.headers() or ()), *headers], delivered)

"""Dead letters: records that a task could not use, kept as they were."""

from typing import Any, Final

from spout_sdk.records import Delivered, Record, Sink
from tuple_tree.dead_letters import dead_letter_headers
from tuple_tree.errors import WireError

_TOO_LARGE: Final = 10
"""Kafka's code for a record that is larger than its topic takes."""


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
    )

    def delivered(failure: Any, message: Any) -> None:
        if getattr(failure, "code", lambda: None)() == _TOO_LARGE:
            sink.send_reported(topic, 0, None, None, [*headers], on_delivery)
        else:
            on_delivery(failure, message)

    sink.send_reported(topic, 0, record.key(), record.value(), [*(record.headers() or ()), *headers], delivered)

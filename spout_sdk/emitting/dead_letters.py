"""Dead letters: records that a task could not use, as they were."""

import logging
from collections.abc import Callable
from typing import Any, Final

from spout_sdk.api.context import TaskContext
from spout_sdk.api.tuples import InputPack, Tuple
from spout_sdk.emitting.ack_buffer import AckBuffer
from spout_sdk.errors import DeliveryError
from spout_sdk.records import Delivered, NoRecord, Record, Sink
from spout_sdk.statistics.counters import Counters
from tuple_tree.anchors import ANCHOR_COUNTS_HEADER, ANCHORS_HEADER, Edges, anchor_headers
from tuple_tree.dead_letters import dead_letter_headers
from tuple_tree.errors import WireError
from tuple_tree.names import dead_letters_topic

logger = logging.getLogger("spout_sdk.bolt")

_TOO_LARGE: Final = 10
"""Kafka's code for a record that is larger than its topic takes."""


class RecordOfOne(NoRecord):
    """One tuple of a record, as a record that carries only this one."""

    __slots__ = ("_headers", "_timestamp", "_value", "index")

    def __init__(self, tuple_: Tuple) -> None:
        record, codec = tuple_.record, tuple_.pack.stream.codec
        super().__init__(record.topic(), record.partition(), record.offset())
        payload = record.value()
        self.index = tuple_.index
        self._value = None if payload is None or codec is None else codec.alone(payload, tuple_.index)
        headers = [each for each in record.headers() or () if each[0] not in (ANCHORS_HEADER, ANCHOR_COUNTS_HEADER)]
        self._headers = anchor_headers([tuple_.edges]) + headers
        self._timestamp = record.timestamp()

    def value(self) -> bytes | None:
        return self._value

    def headers(self) -> Any:
        return self._headers

    def timestamp(self) -> tuple[int, int]:
        return self._timestamp


def send_dead_letter(sink: Sink, topic: str, record: Record, error: WireError, by: str, on_delivery: Delivered) -> None:
    """Sends a record to the dead letters: key, value and headers as they were, and why.

    Where that is too large with our headers, only these are sent: they have the record's topic, partition and offset.

    Args:
        sink: where to send.
        topic: `{topology}.dead-letters`.
        record: as it was read.
        error: what is wrong with it.
        by: the task that could not use it, `component/task`.
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


class BoltDeadLetters:
    """What a bolt's task could not use.

    Args:
        acks: None where trees are not followed.
        done: called with a record whose tuples are all settled.

    Attributes:
        failure: why the task cannot go on; None as long as it can.
        kept_to: the last offset up to which `reject` was called by an earlier task whose transaction was committed.
    """

    def __init__(
        self,
        context: TaskContext,
        counters: Counters,
        sink: Sink,
        acks: AckBuffer | None,
        done: Callable[[InputPack], None],
    ) -> None:
        self._component = context.component
        self._counters = counters
        self._by = f"{context.component}/{context.task}"
        self._topic = dead_letters_topic(context.topology)
        self._sink = sink
        self._acks = acks
        self._done = done
        self.failure: DeliveryError | None = None
        self.kept_to = -1

    def keep(self, tuple_: Tuple, error: WireError, delivered: Callable[[], None]) -> None:
        """Makes a dead letter of a tuple, and calls `delivered` once it is."""
        self._send(tuple_.record, tuple_, error, delivered)

    def reject(self, pack: InputPack, tuple_: Tuple | None, edges: Edges, error: WireError) -> None:
        """Makes a dead letter of a record, or one of its tuples, and fails its trees: they cannot complete."""
        record = pack.record

        def delivered() -> None:
            pack.left -= 1
            if not pack.left:
                self._done(pack)

        if pack.offset <= self.kept_to:
            delivered()
            return
        logger.warning(
            "%s: %s[%s] offset %d%s goes to %s: %s",
            self._by,
            record.topic(),
            record.partition(),
            pack.offset,
            "" if tuple_ is None else f", tuple {tuple_.index},",
            self._topic,
            error,
        )
        if self._acks is not None:
            for root in edges:
                self._acks.fail(root, f"{self._component}: dead letter, {error}")
        self._send(record, tuple_, error, delivered)

    def _send(self, record: Record, tuple_: Tuple | None, error: WireError, delivered: Callable[[], None]) -> None:
        self._counters.dead_letters += 1
        if tuple_ is not None and tuple_.pack.size > 1:
            record = RecordOfOne(tuple_)

        def reported(failure: Any, _message: Any) -> None:
            if failure is None:
                delivered()
            else:
                self.failure = DeliveryError("a dead letter", self._topic, 0, failure)

        send_dead_letter(self._sink, self._topic, record, error, self._by, reported)

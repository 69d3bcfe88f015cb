"""Dead letters: records that a task could not use, as they were."""

import logging
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError

from spout_sdk.api.tuples import InputPack, Tuple
from spout_sdk.emitting.environment import TaskScope
from spout_sdk.errors import DeliveryError
from spout_sdk.records import MadeRecord, Record
from tuple_tree.anchors import ANCHOR_COUNTS_HEADER, ANCHORS_HEADER, Edges, anchor_headers
from tuple_tree.errors import WireError
from tuple_tree.headers import dead_letter_headers
from tuple_tree.names import dead_letters_topic

logger = logging.getLogger("spout_sdk.bolt")


class DeadLetters:
    """Sends dead letters of a task."""

    def __init__(self, scope: TaskScope) -> None:
        self._component = scope.context.component
        self._by = f"{scope.context.component}/{scope.context.task}"
        self._topic = dead_letters_topic(scope.topology.name)
        self._counters = scope.environment.counters
        self._sink = scope.environment.sink
        self._acks = scope.acks
        self.failure: DeliveryError | None = None  # why the task cannot go on

    def send_record(
        self, record: Record, error: WireError, delivered: Callable[[], None], index: int | None = None
    ) -> None:
        """Sends a record: key, value and headers as they were, and why; calls `delivered` once it is delivered.

        The index is that of the one tuple that it carries, of a record of several. Where the record is too large with
        our headers, only these are sent: they have its position.
        """
        self._counters.dead_letters += 1
        topic, partition, offset = str(record.topic()), record.partition(), record.offset()
        at = (topic, -1 if partition is None else partition, -1 if offset is None else offset)
        headers = dead_letter_headers(*at, reason=error.reason, detail=error.detail, by=self._by, index=index)

        def settle(failure: Any, _message: Any) -> None:
            if failure is None:
                delivered()
            else:
                self.failure = DeliveryError("a dead letter", self._topic, 0, failure)

        def reported(failure: Any, message: Any) -> None:
            if getattr(failure, "code", lambda: None)() == KafkaError.MSG_SIZE_TOO_LARGE:
                self._sink.send_reported(self._topic, 0, None, None, [*headers], settle)
            else:
                settle(failure, message)

        all_headers = [*(record.headers() or ()), *headers]
        self._sink.send_reported(self._topic, 0, record.key(), record.value(), all_headers, reported)


class BoltDeadLetters(DeadLetters):
    """What a bolt's task could not use; `done` is called with a record whose tuples are all settled."""

    def __init__(self, scope: TaskScope, done: Callable[[InputPack], None]) -> None:
        super().__init__(scope)
        self._done = done
        # The last offset up to which an earlier task, whose transaction was committed, has rejected.
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
        where = f"{record.topic()}[{record.partition()}] offset {pack.offset}"
        if tuple_ is not None:
            where += f", tuple {tuple_.index},"
        logger.warning("%s: %s goes to %s: %s", self._by, where, self._topic, error)
        if self._acks is not None:
            for root in edges:
                self._acks.fail(root, f"{self._component}: dead letter, {error}")
        self._send(record, tuple_, error, delivered)

    def _send(self, record: Record, tuple_: Tuple | None, error: WireError, delivered: Callable[[], None]) -> None:
        if tuple_ is None or tuple_.pack.size == 1:
            self.send_record(record, error, delivered)
        else:
            self.send_record(_alone(tuple_), error, delivered, tuple_.index)


def _alone(tuple_: Tuple) -> MadeRecord:
    """One tuple of a record, as a record that carries only this one."""
    record, codec, payload = tuple_.record, tuple_.pack.stream.codec, tuple_.record.value()
    return MadeRecord(
        *(record.topic(), record.partition(), record.offset()),
        value_=None if payload is None or codec is None else codec.alone(payload, tuple_.index),
        headers_=anchor_headers([tuple_.edges])
        + [each for each in record.headers() or () if each[0] not in (ANCHORS_HEADER, ANCHOR_COUNTS_HEADER)],
        timestamp_=record.timestamp(),
    )

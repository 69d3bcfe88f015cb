"""Sends dead letters: records that a task could not use."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from confluent_kafka import KafkaError

from kafka_clients.repeated_lines import get_logger
from spout_sdk.api.tuples import Tuple
from spout_sdk.errors import DeliveryError
from spout_sdk.records import ChainedRecord, MadeRecord, Record, TaskEnvironment
from tuple_tree.anchors import ANCHOR_COUNTS_HEADER, ANCHORS_HEADER, OF_TUPLES, AnchorColumns
from tuple_tree.errors import WireError
from tuple_tree.headers import dead_letter_headers
from tuple_tree.identities import IDENTITIES_HEADER, IdentityColumns
from tuple_tree.names import dead_letters_topic
from tuple_tree.payloads import encode_tuples
from tuple_tree.process_stats import LARGEST_ERROR

logger = get_logger("spout_sdk.bolt")


class DeadLetters:
    """Sends dead letters of a task.

    Args:
        by: component and task, as `split/0`.

    Attributes:
        topic: the topic that they go to.
        failure: why the task cannot continue; None while it can.
    """

    def __init__(self, by: str, topology: str, environment: TaskEnvironment) -> None:
        self._by = by
        self.topic = dead_letters_topic(topology)
        self._counters = environment.counters
        self._sink = environment.sink
        self.failure: DeliveryError | None = None

    def send_record(
        self, record: Record, error: WireError, delivered: Callable[[], None], index: int | None = None
    ) -> None:
        """Sends a record with its key, value and headers, and the reason; calls `delivered` once it is delivered.

        `index` is the index of the tuple, if the record has only one tuple of a record of several. If the record is too
        large with the added headers, only these are sent: they have its position.
        """
        self._counters.dead_letters += 1
        place = f"{record.topic()}[{record.partition()}] offset {record.offset()}"
        self._counters.last_dead_letter = f"{place}, {error.reason}: {error.detail}"[:LARGEST_ERROR]
        topic, partition, offset = str(record.topic()), record.partition(), record.offset()
        at = (topic, -1 if partition is None else partition, -1 if offset is None else offset)
        headers = dead_letter_headers(*at, reason=error.reason, detail=error.detail, by=self._by, index=index)

        def settle(failure: Any, _message: Any) -> None:
            if failure is None:
                delivered()
            else:
                self.failure = DeliveryError("a dead letter", self.topic, 0, failure)

        def reported(failure: Any, message: Any) -> None:
            if getattr(failure, "code", lambda: None)() == KafkaError.MSG_SIZE_TOO_LARGE:
                self._sink.send_reported(self.topic, 0, None, None, [*headers], settle)
            else:
                settle(failure, message)

        all_headers = [*(record.headers() or ()), *headers]
        self._sink.send_reported(self.topic, 0, record.key(), record.value(), all_headers, reported)

    def send_tuple(self, tuple_: Tuple, error: WireError, delivered: Callable[[], None]) -> None:
        """Makes a dead letter of a tuple, and calls `delivered` once it is delivered."""
        if isinstance(tuple_.record, ChainedRecord):
            self.send_record(_encoded(tuple_), error, delivered)
        elif tuple_.pack.size == 1:
            self.send_record(tuple_.record, error, delivered)
        else:
            self.send_record(_alone(tuple_), error, delivered, tuple_.index)


def _encoded(tuple_: Tuple) -> Record:
    """A record with a tuple of a chained bolt, as in an inbox; without a value if the tuple cannot be encoded."""
    value: bytes | None = None
    if (codec := tuple_.pack.stream.codec) is not None:
        with suppress(Exception):  # a value that does not fit may be the reason for the dead letter
            value = encode_tuples(codec, [tuple_.values])
    return replace(tuple_.record, value_=value)  # type: ignore[type-var]


def _alone(tuple_: Tuple) -> MadeRecord:
    """A record with a single tuple of a record of several."""
    record, codec, payload = tuple_.record, tuple_.pack.stream.codec, tuple_.record.value()
    headers: Any = record.headers() or ()
    anchors: list[tuple[str, bytes]] = []
    if tuple_.is_tracked:
        named = dict(headers)
        whole = AnchorColumns.read(named[ANCHORS_HEADER], named.get(ANCHOR_COUNTS_HEADER), tuple_.pack.size)
        anchors = whole.part(tuple_.index, tuple_.index + 1).headers()
        if tuple_.pack.batch.is_identified:
            identities = IdentityColumns.read(named.get(IDENTITIES_HEADER), tuple_.pack.size)
            anchors += identities.part(tuple_.index, tuple_.index + 1).headers()
    return MadeRecord(
        *(record.topic(), record.partition(), record.offset()),
        value_=None if payload is None or codec is None else codec.alone(payload, tuple_.index),
        headers_=[*anchors, *(each for each in headers if each[0] not in OF_TUPLES)],
        timestamp_=record.timestamp(),
    )

"""Outcomes of the messages of a `KafkaSpout` in a topic: what became of each, when, and after how many attempts.

An offset is done when its outcome is delivered, so each message that is done has one. If a process dies in between, its
successor writes another one.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError

from spout_sdk.api.components import Failure
from spout_sdk.errors import DeliveryError
from spout_sdk.kafka_spout.partitions import OwnedPartitions
from spout_sdk.records import Record
from spout_sdk.spouts.spout_task import SpoutTask
from tuple_tree.components import OutcomesManifest
from tuple_tree.outcomes import Outcome, OutcomeRecord, failure_text, outcome_stream
from tuple_tree.payloads import encode_tuples, payload_codec

_ANY_PARTITION: Final = -1


class _Open(NamedTuple):
    key: bytes | None
    first_emit: int


class OutcomeWriter:
    """Writes the outcomes of the messages of a task.

    Args:
        task: the task of the spout.
        target: where they go.
        partitions: of the task.
        done: called with the key of a message when its outcome is delivered.
        clock: milliseconds since the epoch.
    """

    def __init__(
        self,
        task: SpoutTask,
        target: OutcomesManifest,
        partitions: OwnedPartitions,
        done: Callable[[int], None],
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._send, self._dead_letters = task.environment.sink.send_record, task.dead_letters
        self._component = task.context.component
        self._topic = target.topic
        self._codec = payload_codec(outcome_stream(target.codec))
        self._partitions, self._done, self._clock = partitions, done, clock
        self._open: dict[int, _Open] = {}
        self._failures: dict[int, Failure] = {}

    def begun(self, key: int, record: Record) -> None:
        """A message is emitted, for the first time by this owner."""
        self._open[key] = _Open(record.key(), self._clock())

    def failed(self, key: int, failure: Failure) -> None:
        """A message has failed, and is delivered again or given up."""
        self._failures[key] = failure

    def acked(self, keys: Sequence[int]) -> None:
        """Messages are acked; those that a transaction has ended before are left out."""
        for key in keys:
            if key in self._open:
                self.ended(key, "acked")

    def ended(self, key: int, outcome: Outcome, reason: str = "", text: str = "") -> None:
        """A message has ended; `reason` and `text` say why the spout ended it, where it is not acked."""
        each, offset = self._partitions.at(key)
        now = self._clock()
        message_key, first_emit = self._open.pop(key, _Open(None, now))
        failure, failures = self._failures.pop(key, None), each.failures(offset)
        component = self._component if reason else ""
        if failure is not None:
            reason, component = reason or failure.reason.word, failure.component
            text = text or failure.message
        attempts = failures + 1 if outcome == "acked" else max(1, failures)
        values = OutcomeRecord(
            *(*each.at, offset, outcome, attempts, first_emit, now, reason, component, failure_text(text))
        )
        value = encode_tuples(self._codec, [values])
        delivered = partial(self._delivered, key, message_key and value)
        self._send(self._topic, _ANY_PARTITION, message_key, value, [], delivered)

    def _delivered(self, key: int, without_key: bytes | None, error: Any, message: Any) -> None:
        """`without_key` is the value to be sent alone if the record is too large."""
        if error is None:
            self._done(key)
        elif without_key and getattr(error, "code", lambda: None)() == KafkaError.MSG_SIZE_TOO_LARGE:
            self._send(self._topic, _ANY_PARTITION, None, without_key, [], partial(self._delivered, key, None))
        else:
            partition = _ANY_PARTITION if message is None else message.partition()
            self._dead_letters.failure = DeliveryError("an outcome", self._topic, partition, error)

"""Outcomes of the messages of a `KafkaSpout` in a topic: what became of each, when, and after how many attempts.

An offset is done when its outcome is delivered, so each message that is done has one. If a process dies in between, its
successor writes another one. If bolts answer the messages, the outcome is also written after the answers.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError

from spout_sdk.errors import DeliveryError
from spout_sdk.kafka_spout.partitions import OwnedPartitions
from spout_sdk.records import Headers, Record
from spout_sdk.spouts.spout_task import SpoutTask
from tuple_tree.answer_records import answer_partition, kind_header, tree_key
from tuple_tree.components import OutcomesManifest
from tuple_tree.messages import Failure
from tuple_tree.names import answers_topic
from tuple_tree.outcome_records import Outcome, OutcomeRecord, failure_text, outcome_headers, outcome_stream
from tuple_tree.payloads import encode_tuples, payload_codec
from tuple_tree.positions import roots_of_words

_ANY_PARTITION: Final = -1


class _Open(NamedTuple):
    key: bytes | None
    first_emit: int


class OutcomeWriter:
    """Writes the outcomes of the messages of a task.

    Args:
        target: the topic of the user for outcomes; None if there is none.
        done: called with the key of a message when its outcome is delivered.
        clock: milliseconds since the epoch.
    """

    def __init__(
        self,
        task: SpoutTask,
        target: OutcomesManifest | None,
        partitions: OwnedPartitions,
        done: Callable[[int], None],
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        manifest = task.context.manifest
        self._send, self._dead_letters = task.environment.sink.send_record, task.dead_letters
        self._component = task.context.component
        self._target = None if target is None else (target.topic, payload_codec(outcome_stream(target.codec)))
        is_answered = any(spout.name == self._component for spout in manifest.answered_spouts)
        self._answers = answers_topic(manifest.topology) if is_answered else None
        self._json = payload_codec(outcome_stream())
        self._headers: Headers = [*outcome_headers(manifest.topology, self._component)]
        self._ack_partitions = manifest.ack_partitions
        self._undelivered: dict[int, int] = {}  # how many records of each message that has ended
        self._partitions, self._done, self._clock = partitions, done, clock
        self._open: dict[int, _Open] = {}
        self._failures: dict[int, Failure] = {}
        self._repeated: dict[int, bool] = {}  # messages that get a root again: whether the record of that is delivered

    @property
    def undelivered(self) -> int:
        """How many messages have ended, with outcomes that are not delivered yet."""
        return len(self._undelivered)

    def begun(self, key: int, record: Record) -> None:
        """Notes a message that this owner emits for the first time."""
        self._open[key] = _Open(record.key(), self._clock())

    def begins_again(self, key: int, root: int) -> bool:
        """Whether a message may be emitted with a root that an earlier attempt has had.

        Before, a record must be delivered behind the answers of that attempt, so that they no longer count; the first
        call sends it.
        """
        if self._answers is None or self._repeated.get(key):
            self._repeated.pop(key, None)
            return True
        if key not in self._repeated:
            self._repeated[key] = False
            at = self._answers, answer_partition(root, self._ack_partitions), tree_key(root)
            self._send(*at, b"", [kind_header("attempt"), *self._headers], partial(self._repeat_delivered, key))
        return False

    def failed(self, key: int, failure: Failure) -> None:
        """Notes the failure of a message, which is delivered again or given up."""
        self._failures[key] = failure

    def acked(self, keys: Sequence[int], failure: Failure | None) -> None:
        """Ends messages whose trees were fully processed; `failure` is that of a tuple that became a dead letter."""
        for key, root in zip(keys, self._roots(keys), strict=True):
            if failure is not None:
                self.failed(key, failure)
            self.ended(key, "acked" if failure is None else "dead-letter", root=root)

    def ended(self, key: int, outcome: Outcome, reason: str = "", text: str = "", *, root: int | None = None) -> None:
        """Writes the outcome of a message.

        Args:
            reason: why the spout ended it, if it is not acked; `text` has the details.
            root: the root of the tree that was fully processed.
        """
        each, offset = self._partitions.at(key)
        now = self._clock()
        message_key, first_emit = self._open.pop(key, _Open(None, now))
        failure, failures = self._failures.pop(key, None), each.failures(offset)
        self._repeated.pop(key, None)
        component = self._component if reason else ""
        if failure is not None:
            reason, component = reason or failure.reason.word, failure.component
            text = text or failure.message
        attempts = failures + 1 if outcome == "acked" or root is not None else max(1, failures)
        values = OutcomeRecord(
            *(*each.at, offset, outcome, attempts, first_emit, now, reason, component, failure_text(text))
        )
        self._undelivered[key] = (self._target is not None) + (self._answers is not None)
        if self._target is not None:
            topic, codec = self._target
            value = encode_tuples(codec, [values])
            delivered = partial(self._delivered, key, topic, message_key and value)
            self._send(topic, _ANY_PARTITION, message_key, value, self._headers, delivered)
        if self._answers is not None:
            # After the answers of the tree, in their partition.
            partition = _ANY_PARTITION if root is None else answer_partition(root, self._ack_partitions)
            tree = None if root is None else tree_key(root)
            headers = [kind_header("outcome"), *self._headers]
            delivered = partial(self._delivered, key, self._answers, None)
            self._send(self._answers, partition, tree, encode_tuples(self._json, [values]), headers, delivered)

    def _roots(self, keys: Sequence[int]) -> Iterator[int | None]:
        """The roots of the last deliveries of messages; None if bolts do not answer them."""
        if self._answers is None or not keys:
            return repeat(None, len(keys))
        at = [self._partitions.at(key) for key in keys]
        words = [each.word(offset, each.own_failures(offset)) for each, offset in at]
        return iter(roots_of_words(words, [each.topic_key for each, _ in at], self._ack_partitions).tolist())

    def _delivered(self, key: int, topic: str, without_key: bytes | None, error: Any, message: Any) -> None:
        """`without_key` is the value to be sent alone if the record is too large."""
        if error is None:
            self._undelivered[key] -= 1
            if not self._undelivered[key]:
                del self._undelivered[key]
                self._done(key)
        elif without_key and getattr(error, "code", lambda: None)() == KafkaError.MSG_SIZE_TOO_LARGE:
            self._send(
                topic, _ANY_PARTITION, None, without_key, self._headers, partial(self._delivered, key, topic, None)
            )
        else:
            self._undeliverable(topic, error, message)

    def _repeat_delivered(self, key: int, error: Any, message: Any) -> None:
        if error is not None:
            self._undeliverable(self._answers or "", error, message)
        elif key in self._repeated:
            self._repeated[key] = True

    def _undeliverable(self, topic: str, error: Any, message: Any) -> None:
        partition = _ANY_PARTITION if message is None else message.partition()
        self._dead_letters.failure = DeliveryError("an outcome", topic, partition, error)

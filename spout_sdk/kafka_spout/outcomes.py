"""The end of the messages of a `KafkaSpout`: their outcomes in a topic, if there is one; then they are done.

A message is done when its outcome is delivered, so each that is done has one. If a process dies in between, its
successor writes another one. If bolts answer the messages, the outcome is also written after the answers.
"""

from collections.abc import Sequence
from functools import partial
from itertools import repeat
from typing import Any, Final

from confluent_kafka import KafkaError

from spout_sdk.errors import DeliveryError
from spout_sdk.records import Headers, Record
from spout_sdk.spouts.spout_task import SpoutTask
from tuple_tree.answer_records import answer_partition, kind_header, tree_key
from tuple_tree.messages import Failure
from tuple_tree.names import answers_topic
from tuple_tree.outcome_records import Outcome, OutcomeRecord, failure_text, outcome_headers, outcome_stream
from tuple_tree.payloads import encode_tuples, payload_codec
from tuple_tree.positions import roots_of_words
from tuple_tree.source_messages import Begun, SourceMessages

_ANY_PARTITION: Final = -1


class OutcomeWriter:
    """Ends the messages of a task."""

    def __init__(self, task: SpoutTask, messages: SourceMessages) -> None:
        manifest, self._component = task.context.manifest, task.context.component
        declared = manifest.spout(self._component)
        is_answered = declared in manifest.answered_spouts
        self._send, self._dead_letters = task.environment.sink.send_record, task.dead_letters
        self._messages, self._clock = messages, task.environment.wall_ms
        target = declared.outcomes if manifest.acking else None
        self._target = None if target is None else (target.topic, payload_codec(outcome_stream(target.codec)))
        self._answers = answers_topic(manifest.topology) if is_answered and manifest.acking else None
        self._records = (self._target is not None) + (self._answers is not None)  # about each message
        self._json = payload_codec(outcome_stream())
        self._headers: Headers = [*outcome_headers(manifest.topology, self._component)]
        self._ack_partitions = manifest.ack_partitions

    def begun(self, first: int, records: Sequence[Record]) -> None:
        """Notes messages that this owner emits for the first time; `first` is the key of the first one."""
        if self._records:
            now = self._clock()
            self._messages.begun.update((first + at, Begun(each.key(), now)) for at, each in enumerate(records))

    def may_repeat_root(self, key: int, root: int) -> bool:
        """Whether a message may be emitted with a root that an earlier attempt has had.

        Before, a record must be delivered behind the answers of that attempt, so that they no longer count; the first
        call sends it.
        """
        each, offset = self._messages.at(key)
        failed = each.failed[offset]
        if self._answers is None or failed.separator:
            failed.separator = None
            return True
        if failed.separator is None:
            failed.separator = False
            at = self._answers, answer_partition(root, self._ack_partitions), tree_key(root)
            self._send(*at, b"", [kind_header("attempt"), *self._headers], partial(self._separated, key))
        return False

    def completed(self, keys: Sequence[int], failure: Failure | None = None) -> None:
        """Ends messages whose trees were fully processed; `failure` is that of a tuple that became a dead letter."""
        if not self._records:
            self._messages.done(keys)
            return
        outcome: Outcome = "acked" if failure is None else "dead-letter"
        for key, root in zip(keys, self._roots(keys), strict=True):
            self._write(key, outcome, root=root, failure=failure, is_complete=True)

    def ended(self, key: int, outcome: Outcome, reason: str = "", text: str = "") -> None:
        """Ends a message that is skipped or a dead letter; `reason` is why the spout ended it, `text` the details."""
        if self._records:
            self._write(key, outcome, reason, text)
        else:
            self._messages.done([key])

    def _write(
        self,
        key: int,
        outcome: Outcome,
        reason: str = "",
        text: str = "",
        *,
        root: int | None = None,
        failure: Failure | None = None,
        is_complete: bool = False,
    ) -> None:
        each, offset = self._messages.at(key)
        begun, failed = self._messages.ended(key, self._records)
        now = self._clock()
        message_key, first_emit = begun or Begun(None, now)
        component = self._component if reason else ""
        if (last := failure or failed.last) is not None:
            reason, component = reason or last.reason.word, last.component
            text = text or last.message
        attempts = failed.failures + 1 if is_complete else max(1, failed.failures)
        values = OutcomeRecord(
            *(*each.at, offset, outcome, attempts, first_emit, now, reason, component, failure_text(text))
        )
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

    def _roots(self, keys: Sequence[int]) -> Sequence[int | None]:
        """The roots of the last deliveries of messages; None if bolts do not answer them."""
        if self._answers is None or not keys:
            return [*repeat(None, len(keys))]
        at = [self._messages.at(key) for key in keys]
        ids = [each.attempt_id(offset) for each, offset in at]
        roots: list[int | None] = roots_of_words(ids, [each.topic_key for each, _ in at], self._ack_partitions).tolist()
        return roots

    def _delivered(self, key: int, topic: str, without_key: bytes | None, error: Any, message: Any) -> None:
        """`without_key` is the value to be sent alone if the record is too large."""
        if error is None:
            self._messages.delivered(key)
        elif without_key and getattr(error, "code", lambda: None)() == KafkaError.MSG_SIZE_TOO_LARGE:
            self._send(
                topic, _ANY_PARTITION, None, without_key, self._headers, partial(self._delivered, key, topic, None)
            )
        else:
            self._undeliverable(topic, error, message)

    def _separated(self, key: int, error: Any, message: Any) -> None:
        each, offset = self._messages.at(key)
        if error is not None:
            self._undeliverable(self._answers or "", error, message)
        elif (failed := each.failed.get(offset)) is not None:
            failed.separator = True

    def _undeliverable(self, topic: str, error: Any, message: Any) -> None:
        partition = _ANY_PARTITION if message is None else message.partition()
        self._dead_letters.failure = DeliveryError("an outcome", topic, partition, error)

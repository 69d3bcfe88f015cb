"""The records that a client reads: answers and outcomes of the topic `{topology}.answers`, or a topic of outcomes."""

from collections.abc import Sequence
from typing import Any

from kafka_clients.repeated_lines import get_logger
from spout_sdk.client.calls import Answered, Ended
from spout_sdk.client.target import Target
from spout_sdk.errors import TopicsError
from spout_sdk.records import Record
from tuple_tree.answer_records import kind_of, root_of_key
from tuple_tree.outcome_records import OutcomeRecord, outcome_stream
from tuple_tree.payloads import decode_tuples, payload_codec
from tuple_tree.positions import MAX_OFFSET, OFFSET_SHIFT, word_of_root

logger = get_logger("spout_sdk.client")


class RecordReader:
    """Decodes records of the topic that a client reads; leaves out records of other spouts and source topics."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._codec = payload_codec(outcome_stream(target.codec))

    def decode(self, records: Sequence[Record]) -> list[Answered | Ended]:
        """The answers and outcomes in records, in their order; what cannot be decoded is logged, and left out.

        Raises:
            TopicsError: if the source topic was created again since the client started.
        """
        if not self._target.has_answers:
            ended = (self._ended(record, None) for record in records if self._target.own.have(record.headers()))
            return [each for each in ended if each is not None]
        found: list[Answered | Ended] = []
        for record in records:
            headers: Any = dict(record.headers() or ())
            kind, root = kind_of(headers), root_of_key(record.key())
            if kind == "answer" and root is not None:
                found.append(Answered(self._offset(root), root, record.value() or b"null"))
            elif kind == "attempt" and root is not None:
                found.append(Answered(self._offset(root), root, None))
            elif kind == "outcome" and self._target.own.have(record.headers()):
                found += filter(None, [self._ended(record, root)])
        return found

    def _offset(self, root: int) -> int:
        """The offset of the message that an answer is for; any number for the message of another topic."""
        word = word_of_root(root, self._target.topic_key, self._target.ack_partitions)
        return word >> OFFSET_SHIFT & (MAX_OFFSET - 1)

    def _ended(self, record: Record, root: int | None) -> Ended | None:
        try:
            (values,) = decode_tuples(self._codec, record.value() or b"")
        except Exception as error:  # noqa: BLE001 - any record that was written there
            text = "%s[%s] offset %s is not an outcome, and is skipped: %s"
            logger.warning(text, record.topic(), record.partition(), record.offset(), error)
            return None
        outcome = OutcomeRecord(*values)
        if outcome.topic != self._target.topic:
            return None
        if root is not None and self._offset(root) != outcome.offset:
            # No answer would be found, and an outcome without its answer is a wrong result.
            raise created_again(outcome.topic)
        return Ended(outcome, root)


def created_again(topic: str) -> TopicsError:
    """The error for a source topic that was deleted, or created again, since the client started."""
    return TopicsError(topic, "was deleted, or deleted and created again: open another client")

"""Emits the messages of a `KafkaSpout` as `translate` returns them; makes dead letters of invalid messages."""

from collections.abc import Sequence
from functools import partial
from operator import methodcaller
from typing import Any, Final

from kafka_clients.repeated_lines import get_logger
from spout_sdk.errors import EmitError, InvalidMessageError, TopicsError
from spout_sdk.kafka_spout.outcomes import OutcomeWriter
from spout_sdk.kafka_spout.read_ahead import Run
from spout_sdk.kafka_spout.translation import KafkaTuple
from spout_sdk.kafka_spout.typed_translation import TypedTranslation
from spout_sdk.records import Record
from spout_sdk.spouts.row_emitter import RowEmitter
from spout_sdk.spouts.spout_task import SpoutTask
from tuple_tree.errors import ENDS_PROCESS, WireError, describe
from tuple_tree.headers import trace_context
from tuple_tree.messages import FailReason, Failure
from tuple_tree.positions import MAX_OFFSET
from tuple_tree.source_messages import SourceMessages
from tuple_tree.streams import DEFAULT_STREAM

logger = get_logger("spout_sdk.kafka_spout")

_HEADERS: Final = methodcaller("headers")
_Translated = tuple[Any, BaseException | None]  # the return value of `translate`, and the exception that it raised


class MessageEmitter:
    """Emits the messages of a task.

    Args:
        first_position: the first position of identities; the key of a message is added to it.
    """

    def __init__(
        self, spout: Any, task: SpoutTask, first_position: int, messages: SourceMessages, outcomes: OutcomeWriter
    ) -> None:
        self._translate, self._policy = spout.translate, spout.retry
        is_own = isinstance(spout.translate, TypedTranslation)
        self._rows_of = spout.translate.rows if is_own else None
        self._context, self._counters = task.context, task.environment.counters
        self._collector, self._dead_letters = task.collector, task.dead_letters
        self._rows_emitter = RowEmitter(task, first_position)
        self._is_replayed = task.context.manifest.acking
        self._messages, self._outcomes, self._clock = messages, outcomes, task.environment.clock
        self._by = f"{task.context.component}/{task.context.task}"

    def emit_run(self, run: Run) -> int:
        """Emits messages with consecutive offsets, together if possible; returns how many it emitted."""
        emitted, begin = 0, 0
        while begin < len(run.records):
            rows, odd = self._rows(run.records[begin:] if begin else run.records)
            end = begin + len(rows)
            if rows:
                emitted += self._emit_rows(run.part(begin, end), rows)
            begin = end
            if odd is not None:
                emitted += self._emit_new(run, begin, odd)
                begin += 1
        return emitted

    def emit(self, record: Record, key: int, root: int | None, translated: _Translated | None = None) -> bool:
        """Emits a message; returns False if it was skipped or becomes a dead letter.

        `translated` is the result of `translate` for the message, if `translate` was called already.
        """
        values, error = self._translated(record) if translated is None else translated
        if isinstance(error, WireError):
            self.reject(key, record, error)
            return False
        if error is not None:
            self._translate_raised(key, record, error)
            return False
        if values is None:
            self._context.count("skipped")
            self._outcomes.ended(key, "skipped")
            return False
        stream = DEFAULT_STREAM
        if isinstance(values, KafkaTuple):
            stream, values = values.stream, values.values
        headers = record.headers()
        found = trace_context(headers) if headers else None
        try:
            self._collector.emit(
                values, message_id=None if root is None else key, stream=stream, root=root, trace_context=found
            )
        except EmitError as error:
            self.reject(key, record, WireError("bad-payload", str(error)))
            return False
        return True

    def reject(self, key: int, record: Record, error: WireError) -> None:
        """Makes a dead letter of a message; the message is done when the dead letter is delivered."""
        where = f"{record.topic()}[{record.partition()}] offset {record.offset()}"
        logger.warning("%s: %s becomes a dead letter: %s", self._by, where, error)
        delivered = partial(self._outcomes.ended, key, "dead-letter", error.reason, error.detail)
        self._dead_letters.send_record(record, error, delivered)

    def _rows(self, records: Sequence[Record]) -> tuple[Sequence[Any], _Translated | None]:
        """The rows of the first messages, if they can be emitted together, and the translation of the next message."""
        if not self._rows_emitter.is_usable:
            return (), self._translated(records[0])
        as_objects = self._rows_emitter.takes_objects
        if self._rows_of is not None and not any(map(_HEADERS, records)):
            found = self._rows_of(records, as_objects=as_objects)
            return found, None if len(found) == len(records) else self._translated(records[len(found)])
        rows: list[Any] = []
        for record in records:
            values, error = translated = self._translated(record)
            if error is not None or values.__class__ is not tuple or as_objects or record.headers():
                return rows, translated
            rows.append(values)
        return rows, None

    def _emit_rows(self, run: Run, rows: Sequence[Any]) -> int:
        """Emits messages with their rows; returns how many it emitted."""
        emitted = 0
        if run.of.start_run(run.offset, run.offset + len(rows)):
            first = run.of.first_key + run.offset
            self._outcomes.begun(first, run.records)
            emitted = self._rows_emitter.emit(rows, range(first, first + len(rows)), run.roots)
            for at in range(emitted, len(rows)):
                root = None if run.roots is None else int(run.roots[at])
                emitted += self.emit(run.records[at], first + at, root, self._values(run.records[at], rows[at]))
            return emitted
        return sum(self._emit_new(run, at, self._values(run.records[at], row)) for at, row in enumerate(rows))

    def _values(self, record: Record, row: Any) -> _Translated:
        """The values of a row, which may be an object."""
        return self._translated(record) if self._rows_emitter.takes_objects else (row, None)

    def _emit_new(self, run: Run, at: int, translated: _Translated) -> bool:
        """Emits one message of a run; returns whether it was emitted."""
        each, offset, record = run.of, run.offset + at, run.records[at]
        if offset < each.read_to:
            return False
        if self._is_replayed and offset >= MAX_OFFSET:
            raise TopicsError(
                str(each.at),
                f"has reached offset {offset}, and positional roots have room for {MAX_OFFSET}: copy the topic",
            )
        if not each.start(offset):
            return False
        key = each.first_key + offset
        self._outcomes.begun(key, [record])
        if (failed := each.failed.get(offset)) is not None and self._policy.delay(failed.failures) is None:
            # Its last owner has ended before the dead letter was delivered.
            self.reject(key, record, WireError("retries-exhausted", f"all {failed.failures} attempts failed"))
            return False
        return self.emit(record, key, None if run.roots is None else int(run.roots[at]), translated)

    def _translated(self, record: Record) -> _Translated:
        try:
            return self._translate(record), None
        except ENDS_PROCESS:
            raise
        except BaseException as error:  # noqa: BLE001 - anything that the user's translate raises
            return None, error

    def _translate_raised(self, key: int, record: Record, error: BaseException) -> None:
        """Makes a dead letter of an invalid message; retries others: a service that `translate` needs may be down."""
        why = f"translate() raised {describe(error)}"
        if isinstance(error, InvalidMessageError) or not self._is_replayed:
            self.reject(key, record, WireError("bad-payload", why))
            return
        self._counters.count_error(error)
        where = f"{record.topic()}[{record.partition()}] offset {record.offset()}"
        logger.error("%s: %s at %s; the message is retried", self._by, why, where, exc_info=error)
        self._messages.failed(key, Failure(FailReason.FAILED, why, self._context.component), self._clock())

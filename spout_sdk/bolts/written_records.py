"""Records that a bolt writes for its inputs, and their delivery reports."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Protocol

from kafka_clients.repeated_lines import get_logger
from spout_sdk.api.tuples import FAILED, InputPack, Tuple
from spout_sdk.bolts.answers import answer_payload, answer_records
from spout_sdk.emitting.task import Task
from spout_sdk.errors import DeliveryError, TupleAlreadyDoneError, is_refused
from spout_sdk.records import Headers
from tuple_tree.anchors import Rows
from tuple_tree.input_batch import PlacedRuns

logger = get_logger("spout_sdk.bolt")


class Undelivered(NamedTuple):
    """A record that was not delivered, with the error and the message as reported."""

    tuple: Tuple
    topic: str
    error: Any
    message: Any


@dataclass(slots=True, eq=False)
class Written:
    """Records for tuples of one pack, one for each, that are written to one topic.

    Attributes:
        indices: the index of each tuple in the pack.
        tuples: the tuples that are known, by index; others have no values in hooks.
        ended: indices of tuples with a delivery report since the last `take`.
    """

    reports: "DeliveryReports"
    pack: InputPack
    indices: Sequence[int]
    topic: str
    tuples: Mapping[int, Tuple]
    ended: list[int] = field(default_factory=list)

    def report(self, at: int, error: Any, message: Any) -> None:
        """Takes the delivery report of a record, by its place in `indices`."""
        index = self.indices[at]
        if error is not None:
            tuple_ = self.tuples.get(index) or self.pack.tuple_at(index, ())
            self.reports.undelivered.append(Undelivered(tuple_, self.topic, error, message))
        if not self.ended:
            self.reports.ended.append(self)
        self.ended.append(index)


class DeliveryReports:
    """Delivery reports, which arrive at any time, even while another record is sent: they are queued for a flush.

    Attributes:
        ended: records with reports.
        undelivered: records that were not delivered, which are in `ended` as well.
    """

    def __init__(self) -> None:
        self.ended: deque[Written] = deque()
        self.undelivered: deque[Undelivered] = deque()

    def take(self, fail: Callable[[Undelivered], None]) -> list[tuple[InputPack, list[int]]]:
        """The tuples with reports, after `fail` was called for each record that was not delivered."""
        while self.undelivered:
            fail(self.undelivered.popleft())
        taken = []
        while self.ended:
            written = self.ended.popleft()
            taken.append((written.pack, sorted(written.ended)))
            written.ended = []
        return taken


class WrittenInputs(Protocol):
    """The part of a `Settlement` that `RecordWrites` uses."""

    def ack(self, tuple_: Tuple) -> None: ...
    def ack_indices(self, pack: InputPack, rows: Sequence[int] | Rows) -> None: ...
    def fail_late(self, tuple_: Tuple, message: str) -> None: ...
    def too_late(self, action: str, tuple_: Tuple) -> TupleAlreadyDoneError: ...
    def close(self, pack: InputPack, tuples: int) -> None: ...


class RecordWrites:
    """Writes records for the inputs of a step: each input is open until its records are delivered."""

    def __init__(self, task: Task, settlement: WrittenInputs) -> None:
        self._component, self._task = task.context.component, task.context.task
        self._hooks, self._run_hooks = task.context.hooks, task.run_hooks
        self._counters, self._sink = task.environment.counters, task.environment.sink
        self._outbox, self._is_transactional = task.outbox, task.outbox.is_transactional
        self._manifest = task.topology.manifest
        self._is_tracked = self._manifest.acking
        self._settlement = settlement
        self._reports = DeliveryReports()
        self._to_ack: dict[Tuple, None] = {}  # tuples that records were written for
        self._held, self._released = PlacedRuns(), PlacedRuns()  # places of tuples with a record; and with a report

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to handle or to count."""
        return not (self._to_ack or self._reports.ended or self._released.runs)

    def ack_later(self, tuple_: Tuple) -> None:
        """Acks a tuple in the next `handle`."""
        self._to_ack[tuple_] = None

    def write(
        self,
        tuple_: Tuple,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: Sequence[tuple[str, str | bytes | None]],
        partition: int,
    ) -> None:
        """Writes a record for a tuple, which is acked by the next flush, and done when the record is delivered.

        Raises:
            TupleAlreadyDoneError: if it was acked or failed before.
            FailTupleError: if too many records wait for their transaction.
        """
        if tuple_.settled:
            raise self._settlement.too_late("write a record for", tuple_)
        self._outbox.check_room()
        pack, index = tuple_.pack, tuple_.index
        written = Written(self._reports, pack, (index,), topic, {index: tuple_})
        record = topic, partition, key, value, list(headers), partial(written.report, 0)
        self._outbox.write(pack, (index,), lambda _: self._send(*record))
        self._hold(pack, (index,))
        self._to_ack[tuple_] = None

    def answer(self, tuple_: Tuple, value: Any) -> None:
        """Writes an answer for each tree of a tuple, as `write` does.

        Raises:
            TopologyError: if the bolt does not declare that it answers.
            TypeError: if the value is not JSON.
            ValueError: if the value contains NaN or an infinity.
            TupleAlreadyDoneError: if the tuple was acked or failed before.
        """
        self.write_answer(tuple_, answer_payload(self._manifest, self._component, value))

    def write_answer(self, tuple_: Tuple, payload: bytes) -> None:
        """Writes the payload of an answer for each tree of a tuple."""
        for record in answer_records(self._manifest, tuple_.roots, payload):
            self.write(tuple_, *record)

    def write_all(
        self,
        pack: InputPack,
        indices: Sequence[int],
        topic: str,
        keys: Sequence[bytes | None] | None,
        values: Sequence[bytes | None],
        headers: Sequence[Headers] | None = None,
        *,
        tuples: Iterable[Tuple] = (),
    ) -> None:
        """Writes one record for each of some tuples of a pack, and acks them; each is done when that is delivered.

        Args:
            indices: the index of each tuple in the pack.
            keys: the key of each record; None if no record has a key.
            headers: the headers of each record; None if no record has headers.
            tuples: the tuples of the pack, for hooks.
        """
        wanted = set(indices) if self._hooks else ()
        known = {each.index: each for each in tuples if each.index in wanted} if wanted else {}
        written = self.expect(pack, indices, topic, known)
        self._outbox.write(pack, indices, partial(self._send_all, written, (keys, values, headers)))
        self._settlement.ack_indices(pack, indices)
        for tuple_ in known.values():
            self._run_hooks(lambda hook, tuple_=tuple_: hook.bolt_ack(tuple_))  # type: ignore[misc]

    def handle(self) -> None:
        """Acks tuples that records were written for, and handles delivery reports: between two calls of bolts."""
        reported = self._reports.take(self._not_written)
        to_ack, self._to_ack = self._to_ack, {}
        for tuple_ in to_ack:
            if not tuple_.settled:
                self._settlement.ack(tuple_)
        for pack, indices in reported:
            self._release(pack, indices)

    def count(self) -> None:
        """Counts records that are not delivered, at the inputs that the task has read."""
        for runs, change in ((self._held, 1), (self._released, -1)):
            for batch, places in runs.take():
                batch.count_open(places, change)

    def withdraw(self, tuple_: Tuple) -> None:
        """Records of the execution before do not ack a tuple, because it will be executed again."""
        self._to_ack.pop(tuple_, None)

    def expect(self, pack: InputPack, indices: Sequence[int], topic: str, tuples: Mapping[int, Tuple]) -> Written:
        """Counts a record for each of some tuples as open, before it is sent."""
        self._hold(pack, indices)
        return Written(self._reports, pack, indices, topic, tuples)

    def _hold(self, pack: InputPack, indices: Sequence[int]) -> None:
        pack.left += self._note(self._held, pack, indices)

    def _release(self, pack: InputPack, indices: Sequence[int]) -> None:
        if untracked := self._note(self._released, pack, indices):
            self._settlement.close(pack, untracked)

    def _note(self, to: PlacedRuns, pack: InputPack, indices: Sequence[int]) -> int:
        """Notes the places of tuples; returns how many tuples have no place.

        In a transaction nothing is noted: a record leaves when its input is done, and is reported at once.
        """
        if self._is_transactional:
            return 0
        if not pack.batch.is_tracked:
            return len(indices)
        if pack.starts is None and len(indices) > 1:
            to.add_all(pack.batch, pack.places_of(indices))
            return 0
        untracked = 0
        for index in indices:
            places = pack.places(index)
            untracked += not places
            for place in places:
                to.add(pack.batch, place)
        return untracked

    def _send(self, topic: str, *record: Any) -> None:
        try:
            self._sink.send_record(topic, *record)
        except (TypeError, ValueError, OverflowError) as error:  # of a part that is neither text nor bytes
            if not self._is_transactional:
                raise
            record[-1](error, None)

    def _send_all(self, written: Written, columns: Any, at: Sequence[int]) -> None:
        report: Any = written.report
        if len(at) < len(written.indices):
            columns = [each and [each[place] for place in at] for each in columns]
            report = lambda place, *outcome: written.report(at[place], *outcome)  # noqa: E731
        keys, values, headers = columns
        self._sink.send_records(written.topic, keys, values, headers, report)

    def _not_written(self, undelivered: Undelivered) -> None:
        tuple_, topic, error, message = undelivered
        self._counters.undelivered += 1
        failure = f"a record for topic {topic} was not delivered: {error}"
        logger.error("%s/%d: %s", self._component, self._task, failure)
        # An untracked input was committed before: a record of it is lost, and must not be sent twice.
        if not tuple_.settled or (self._is_tracked and tuple_.pack.settled[tuple_.index] != FAILED):
            self._settlement.fail_late(tuple_, failure)
        if self._is_tracked and message is not None and is_refused(error):
            # Each replay would end like this one.
            self._outbox.acks.failure = DeliveryError("a record", message.topic(), message.partition(), error)

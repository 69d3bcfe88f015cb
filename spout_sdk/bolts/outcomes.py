"""The outcomes of a bolt's inputs: acks, fails and dead letters, and the deliveries that they wait for."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kafka_clients.repeated_lines import get_logger
from spout_sdk.api.tuples import NO_OFFSET, InputPack, Tuple
from spout_sdk.bolts.answers import answer_payload, answer_records
from spout_sdk.bolts.pending_writes import PendingWrites, Report, WriteGroup
from spout_sdk.bolts.retries import Retries
from spout_sdk.emitting.task import Task
from spout_sdk.errors import DeliveryError, TupleAlreadyDoneError, is_refused
from spout_sdk.records import Headers
from tuple_tree.anchors import Rows
from tuple_tree.errors import WireError, describe, text_of
from tuple_tree.input_batch import InputBatch
from tuple_tree.messages import FailReason

if TYPE_CHECKING:
    from spout_sdk.bolts.arrow_collector import ArrowInput

logger = get_logger("spout_sdk.bolt")

_TIMED: Final = 1_000  # tuples that are timed at once, at most: a bolt may never ack some


class Outcomes:
    """Settles the inputs of a task, each once.

    Args:
        inputs: its open records: an `InputOffsets`, or an object with its `is_open`, `open_roots`, `has_no_effects`.

    Attributes:
        retries: inputs that wait to be executed again.
        written: how many records were written to topics of the user's.
        untraced: how many tuples were emitted with several anchors, including one without a tree.
    """

    def __init__(self, task: Task, inputs: Any) -> None:
        self._component, self._task = task.context.component, task.context.task
        self._hooks, self._run_hooks = task.context.hooks, task.run_hooks
        self._counters = task.environment.counters
        self._clock = task.environment.clock
        self._sink = task.environment.sink
        self._outbox = task.outbox
        self._acked = task.outbox.acked
        self._inputs = inputs
        self._dead_letters = task.dead_letters
        self._manifest = task.topology.manifest
        self._is_tracked = self._manifest.acking
        self._timed: dict[Tuple, float] = {}
        self._writes = PendingWrites(self._ack_written, self._not_written, self._ack_group)
        self._unwritten = self._writes.undelivered
        self.written = self.untraced = 0
        self.retries = Retries(task, self)

    @property
    def unanchored(self) -> int:
        """How many tuples and records may be effects of any open input."""
        return self.written + self.untraced

    def ack(self, tuple_: Tuple) -> None:
        """Acks a tuple, once all records that were written for it are delivered.

        Raises:
            TupleAlreadyDoneError: if it was acked or failed before.
        """
        pack = tuple_.pack
        if pack.settled[tuple_.index]:
            if pack.has_expired:
                return
            raise pack.already_done("ack")
        if self._unwritten and self._ack_waits(tuple_):
            return
        if pack.offset == NO_OFFSET:
            return
        self._acked_one(tuple_)
        self._counters.acked += 1
        if self._timed and tuple_ in self._timed:
            self._counters.process_latency.record(self._clock() - self._timed.pop(tuple_))
        if self._hooks:
            self._run_hooks(lambda hook: hook.bolt_ack(tuple_))

    def _acked_one(self, tuple_: Tuple) -> None:
        """Settles an acked tuple that waits for no delivery."""
        pack, place, acked = tuple_.pack, tuple_.place, self._acked
        batch = pack.batch
        if batch.is_tracked:
            if place >= 0:
                if acked.batch is not batch:
                    acked.turn(batch)
                acked.places.append(place)
            else:
                acked.add_all(batch, pack.places(tuple_.index))
        pack.settled[tuple_.index] = 1
        pack.left -= 1
        if not pack.left:
            self._outbox.covered.append(pack)

    def ack_together(self, tuples: Sequence[Tuple]) -> None:
        """Acks tuples of one record, in their order, that are not settled."""
        pack = tuples[0].pack if tuples else None
        if pack is None or self._unwritten or pack.starts is not None or pack.offset == NO_OFFSET:
            for tuple_ in tuples:
                self.ack(tuple_)
            return
        first, behind = tuples[0].index, tuples[-1].index + 1
        is_run = behind - first == len(tuples)
        if is_run:
            if pack.batch.is_tracked:
                self._acked.add_range(pack.batch, range(pack.first + first, pack.first + behind))
            pack.settled[first:behind] = b"\1" * len(tuples)
        else:
            if pack.batch.is_tracked:
                self._acked.add_all(pack.batch, [tuple_.place for tuple_ in tuples])
            for tuple_ in tuples:
                pack.settled[tuple_.index] = 1
        self._counters.acked += len(tuples)
        self._close(pack, len(tuples))
        for tuple_ in tuples if self._hooks else ():
            self._run_hooks(lambda hook, tuple_=tuple_: hook.bolt_ack(tuple_))  # type: ignore[misc]

    def ack_rows(self, input_: "ArrowInput", rows: Rows) -> None:
        input_.settle(rows)
        self._acked.add_all(input_.pack.batch, input_.places(rows)[0])
        self._counters.acked += len(rows)
        self._close(input_.pack, len(rows))

    def fail(self, tuple_: Tuple, message: str | BaseException) -> None:
        """Fails the trees of a tuple.

        Raises:
            TupleAlreadyDoneError: if it was acked or failed before.
        """
        if tuple_.offset == NO_OFFSET:
            return
        message = as_text(message)
        if self.is_done(tuple_):
            if tuple_.pack.has_expired:
                return
            raise tuple_.pack.already_done("fail")
        self._writes.forget(tuple_)
        self._timed.pop(tuple_, None)
        self._counters.count_failed(FailReason.FAILED, message)
        for root in tuple_.roots:
            self._outbox.fail(root, message)
        self._settle(tuple_)
        self._run_hooks(lambda hook: hook.bolt_fail(tuple_, message))

    def reject(self, tuple_: Tuple, error: WireError) -> None:
        """Makes a dead letter of a tuple that cannot be read, and fails its trees: they cannot complete."""
        pack = tuple_.pack
        where = f"{tuple_.topic}[{tuple_.partition}] offset {pack.offset}"
        if pack.size > 1:
            where += f", tuple {tuple_.index},"
        what = (self._component, self._task, where, self._dead_letters.topic, error)
        logger.warning("%s/%d: %s goes to %s: %s", *what)
        for root in tuple_.roots:
            self._outbox.fail(root, f"{self._component}: dead letter, {error}")
        self._dead_letters.send_tuple(tuple_, error, partial(self._settle, tuple_))

    def send_dead_letter(self, tuple_: Tuple, error: WireError) -> None:
        """Sends a dead letter of a tuple, which is acked when this and its other records are delivered.

        Its trees are marked: their messages end as dead letters.
        """
        self._writes.expect(tuple_)
        self._mark(tuple_, error.detail)
        self._dead_letters.send_tuple(tuple_, error, partial(self._writes.report, tuple_, ""))

    def _mark(self, tuple_: Tuple, message: str) -> None:
        pack = tuple_.pack
        self._outbox.mark(((pack.batch, place) for place in pack.places(tuple_.index)), message)

    def retry(self, tuple_: Tuple, message: str | BaseException, delay: float | None = None, rows: Any = None) -> None:
        """Has a tuple executed again later.

        Raises:
            TupleAlreadyDoneError: if it was acked or failed before.
        """
        if tuple_.offset == NO_OFFSET:
            return
        if self.is_done(tuple_):
            if tuple_.pack.has_expired:
                return
            raise tuple_.pack.already_done("retry")
        self.retries.retry(tuple_, as_text(message), delay, rows)

    def begun_anew(self, tuple_: Tuple) -> Tuple:
        """The same tuple for another execution; records of the execution before do not ack it."""
        self._timed.pop(tuple_, None)
        if tuple_ not in self._writes.undelivered:
            return tuple_
        self._writes.forget(tuple_)
        # Their delivery reports arrive later, and belong to the tuple of the execution before.
        return tuple_.pack.tuple_at(tuple_.index, tuple_.values)

    def write(
        self,
        tuple_: Tuple,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: Sequence[tuple[str, str | bytes | None]],
        partition: int,
    ) -> None:
        """Writes a record for a tuple; raises `TupleAlreadyDoneError` if that was acked or failed before."""
        if self.is_done(tuple_):
            raise self.too_late("write a record for", tuple_)
        writes, tracked = self._writes, self._is_tracked
        send = self._sink.send_record
        writes.expect(tuple_)
        self.written += 1
        try:
            send(topic, partition, key, value, list(headers), partial(writes.report, tuple_, topic))
        except BaseException:
            writes.withdraw(tuple_)
            raise
        if not tracked:
            # The input was committed before: a record that is not delivered is lost, and must not be sent twice.
            writes.report(tuple_, topic)

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
        """Writes one record for each of some tuples of a pack; each tuple is acked when its record is delivered.

        Args:
            indices: the index of each tuple in the pack.
            keys: the key of each record; None if no record has a key.
            headers: the headers of each record; None if no record has headers.
            tuples: the tuples of the pack, for hooks.
        """
        wanted = set(indices) if self._hooks else ()
        group = WriteGroup(pack, indices, topic, [each for each in tuples if each.index in wanted] if wanted else [])
        self.written += len(indices)
        self._wrote(pack, indices)
        if not self._is_tracked:
            # The inputs were committed before: a record that is not delivered is lost, and must not be sent twice.
            self._sink.send_records(topic, keys, values, headers, partial(self._lost, group))
            self._ack_group(group, indices)
            return
        self._sink.send_records(topic, keys, values, headers, self._writes.reporter(group))

    def _lost(self, group: WriteGroup, at: int, error: Any, _message: Any) -> None:
        """Handles the delivery report of an untracked record; its tuple is acked in any case."""
        if error is not None:
            self._not_written((group.tuple_at(group.indices[at]), group.topic, error, None), is_pending=False)

    def _wrote(self, pack: InputPack, indices: Sequence[int]) -> None:
        """Called when records were written for tuples."""

    def emitted_for(self, anchors: Sequence[Tuple], found: Mapping[int, tuple[InputBatch, int]]) -> None:
        """Notes with `exactly_once` that a tuple is an effect of each of its anchors; `found` maps roots to places.

        If the tuple's edge in an anchor's tree is at the place of another anchor, the two share one more edge: the
        tree completes when both are acked, as it would without that edge.
        """
        if self._inputs.has_no_effects:
            return
        self.untraced += not all(anchor.is_tracked for anchor in anchors)
        for pack, place in ((anchor.pack, place) for anchor in anchors for place in anchor.pack.places(anchor.index)):
            batch, first = found[int(pack.batch.roots[place])]
            if (batch, first) != (pack.batch, place):
                self._outbox.share([(batch, first), (pack.batch, place)])

    def reset_timeout(self, tuple_: Tuple) -> None:
        """Restarts the clocks of the trees of a tuple that is not settled."""
        if not tuple_.settled:
            for root in tuple_.roots:
                self._outbox.reset(root)

    def keep_open_alive(self) -> None:
        """Restarts the clocks of the trees of all open tuples."""
        for roots in self._inputs.open_roots():
            for root in roots.tolist():
                self._outbox.reset(root)

    def forget_expired(self) -> None:
        """Stops timing tuples whose records have expired."""
        for tuple_ in [each for each in self._timed if not self._inputs.is_open(each.offset)]:
            del self._timed[tuple_]

    def is_open(self, offset: int) -> bool:
        """Whether the record at an offset was read, and is not settled."""
        is_open: bool = self._inputs.is_open(offset)
        return is_open

    def is_done(self, tuple_: Tuple) -> bool:
        """Whether a tuple was acked or failed, though the ack may wait for records to be delivered."""
        return tuple_.settled or tuple_ in self._writes.acked

    def too_late(self, action: str, tuple_: Tuple) -> TupleAlreadyDoneError:
        """Fails the trees of a tuple that is done, and returns the error of an emit or a write for it."""
        error = tuple_.pack.already_done(action)
        if not tuple_.settled:
            # Its ack waits for records, and would come after the fail, maybe in the same batch.
            self._writes.forget(tuple_)
            self.fail(tuple_, f"{self._component}: {error}")
            return error
        pack = tuple_.pack
        places = pack.places(tuple_.index)
        for place in places:
            # An ack that was not sent yet is removed, or the tree could complete before the fail.
            self._acked.remove(pack.batch, place)
        for place in places:
            self._outbox.fail(int(pack.batch.roots[place]), f"{self._component}: {error}")
        return error

    def start_timing(self, tuple_: Tuple, began: float) -> None:
        """Measures how long it takes until a tuple is acked."""
        if len(self._timed) < _TIMED:
            self._timed[tuple_] = began

    def settle_written(self) -> None:
        """Settles tuples by the delivery reports so far."""
        self._writes.handle()

    def _settle(self, tuple_: Tuple) -> None:
        tuple_.pack.settled[tuple_.index] = 1
        self._close(tuple_.pack)

    def _close(self, pack: InputPack, tuples: int = 1) -> None:
        pack.left -= tuples
        if not pack.left:
            self._outbox.covered.append(pack)

    def _ack_waits(self, tuple_: Tuple) -> bool:
        """Whether the ack waits for records that are not delivered; raises if it waits already."""
        writes = self._writes
        if tuple_ in writes.acked:
            raise tuple_.pack.already_done("ack")
        if tuple_ not in writes.undelivered:
            return False
        writes.acked.add(tuple_)
        return True

    def _ack_written(self, tuple_: Tuple) -> None:
        if not tuple_.settled:
            self.ack(tuple_)

    def _ack_group(self, group: WriteGroup, indices: Sequence[int]) -> None:
        """Acks tuples whose records are delivered, unless their pack has expired."""
        if self._inputs.is_open(group.pack.offset):
            self.ack_together([group.tuple_at(index) for index in group.still_open(indices)])

    def _not_written(self, report: Report, is_pending: bool) -> None:
        tuple_, topic, error, message = report
        self._counters.undelivered += 1
        failure = f"a record for topic {topic} was not delivered: {error}"
        logger.error("%s/%d: %s", self._component, self._task, failure)
        if is_pending and not tuple_.settled:
            self.fail(tuple_, failure)
        if self._is_tracked and message is not None and is_refused(error):
            # Each replay would end like this one.
            self._outbox.acks.failure = DeliveryError("a record", message.topic(), message.partition(), error)


def as_text(message: str | BaseException) -> str:
    """A reason as text; of an exception its type and text."""
    return describe(message) if isinstance(message, BaseException) else text_of(message)

"""The settlement of a step's inputs: acks, fails and dead letters; which inputs wait after their ack, and for what.

An input is done when it is acked or failed, and nothing is open that was made of it: no tuple in a step behind, and no
record that is not delivered. What is open is counted at the input that the task has read (`InputBatch.count_open`), and
looked at by each flush. In a transaction an input is counted as well, from the first flush that finds it open until its
ack or fail; what was made of it waits meanwhile (`TransactionalOutbox`).
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import compress, groupby
from typing import Any, Final, NamedTuple

import numpy as np

from kafka_clients.repeated_lines import get_logger
from spout_sdk.api.tuples import ACKED, DONE, FAILED, NO_OFFSET, InputPack, Tuple
from spout_sdk.bolts.ack_times import AckTimes
from spout_sdk.bolts.input_rows import ArrowInput
from spout_sdk.bolts.retries import Retries
from spout_sdk.bolts.written_records import RecordWrites
from spout_sdk.emitting.open_inputs import OpenInputs
from spout_sdk.emitting.task import Task
from spout_sdk.errors import TupleAlreadyDoneError
from spout_sdk.records import Headers
from tuple_tree.anchors import Rows
from tuple_tree.chained_batch import ChainedBatch
from tuple_tree.errors import WireError, describe, text_of
from tuple_tree.identities import NO_POSITION
from tuple_tree.input_batch import InputBatch
from tuple_tree.messages import FailReason

logger = get_logger("spout_sdk.bolt")

_FIRST: Final = (0,)


class Noted(NamedTuple):
    """The indices of acked or failed tuples of one pack."""

    pack: InputPack
    rows: Sequence[int] | Rows


class Settlement:
    """Settles the inputs of a step, each once.

    Args:
        inputs: its open packs.

    Attributes:
        retries: inputs that wait to be executed again.
        writes: records that are written for inputs.
        times: how long it takes until inputs are acked.
        executing: the inputs of the call that runs, if what it emits may have no anchors.
        writes_at_once: whether the bolt has written records that leave before their inputs are done.
    """

    def __init__(self, task: Task, inputs: OpenInputs) -> None:
        self._component, self._task = task.context.component, task.context.task
        self._hooks, self._run_hooks = task.context.hooks, task.run_hooks
        self._counters = task.environment.counters
        self._outbox, self._is_transactional = task.outbox, task.outbox.is_transactional
        self._inputs = inputs
        self._dead_letters = task.dead_letters
        self._has_state = getattr(task.topology.manifest.component(self._component), "state", None) is not None
        self._noted: list[Noted] = []  # acked or failed since the last `settle`
        self._last: InputPack | None = None  # the pack of the last of these, if its tuples were noted one by one
        self._last_rows: list[int] = []
        self._waiting: dict[InputBatch, list[Noted]] = {}  # acked or failed before, and something is open
        self.executing: Sequence[Tuple] = ()
        self.writes_at_once = False
        self.times = AckTimes(task.environment.clock, self._counters.process_latency)
        self.writes = RecordWrites(task, self)
        self.retries = Retries(task, self)

    def ack(self, tuple_: Tuple) -> None:
        """Acks a tuple.

        Raises:
            TupleAlreadyDoneError: if it was acked or failed before.
        """
        pack, index = tuple_.pack, tuple_.index
        if pack.settled[index]:
            if pack.has_expired or pack.offset == NO_OFFSET:
                return
            raise pack.already_done("ack")
        if pack.offset == NO_OFFSET:
            return
        pack.settled[index] = ACKED
        if pack is self._last:
            self._last_rows.append(index)
        else:
            self._note(pack, index)
        self._counters.acked += 1
        if self.times:
            self.times.acked(pack, (index,))
        if self._hooks:
            self._run_hooks(lambda hook: hook.bolt_ack(tuple_))

    def ack_together(self, tuples: Sequence[Tuple]) -> None:
        """Acks tuples of one record, in their order, that are not settled."""
        pack = tuples[0].pack if tuples else None
        if pack is None or pack.offset == NO_OFFSET or pack.has_expired:
            return
        if pack.size == 1:
            pack.settled[0] = ACKED
            self._counters.acked += 1
            if self.times:
                self.times.acked(pack, _FIRST)
            self._last = None
            self._noted.append(Noted(pack, _FIRST))
        else:
            first, behind = tuples[0].index, tuples[-1].index + 1
            rows: Sequence[int] = range(first, behind)
            if len(rows) != len(tuples):
                rows = [tuple_.index for tuple_ in tuples]
            self.ack_indices(pack, rows)
        for tuple_ in tuples if self._hooks else ():
            self._run_hooks(lambda hook, tuple_=tuple_: hook.bolt_ack(tuple_))  # type: ignore[misc]

    def ack_rows(self, input_: ArrowInput, rows: Rows) -> None:
        self.ack_indices(input_.pack, input_.indices[rows])

    def fail(self, tuple_: Tuple, message: str | BaseException) -> None:
        """Fails the trees of a tuple.

        Raises:
            TupleAlreadyDoneError: if it was acked or failed before.
        """
        if self._is_open(tuple_, "fail"):
            self.fail_late(tuple_, as_text(message))

    def reject(self, tuple_: Tuple, error: WireError) -> None:
        """Makes a dead letter of a tuple that cannot be read, and fails its trees: they cannot complete."""
        pack = tuple_.pack
        where = f"{tuple_.topic}[{tuple_.partition}] offset {pack.offset}"
        if pack.size > 1:
            where += f", tuple {tuple_.index},"
        what = (self._component, self._task, where, self._dead_letters.topic, error)
        logger.warning("%s/%d: %s goes to %s: %s", *what)
        self._fail_trees(tuple_, f"{self._component}: dead letter, {error}")
        self._dead_letters.send_tuple(tuple_, error, partial(self._settle, tuple_))

    def send_dead_letter(self, tuple_: Tuple, error: WireError) -> None:
        """Sends a dead letter of a tuple, which is acked; it is done when this and its other records are delivered.

        Its trees are marked: their messages end as dead letters.
        """
        pack = tuple_.pack
        letter = self.writes.expect(pack, (tuple_.index,), self._dead_letters.topic, {tuple_.index: tuple_})

        def send(_: Any) -> None:
            places = ((pack.batch, place) for place in pack.places(tuple_.index))
            self._outbox.mark(places, self._of_step(error.detail))
            self._dead_letters.send_tuple(tuple_, error, partial(letter.report, 0, None, None))

        self._outbox.write(pack, (tuple_.index,), send)
        self.writes.ack_later(tuple_)

    def retry(self, tuple_: Tuple, message: str | BaseException, delay: float | None = None, rows: Any = None) -> None:
        """Has a tuple executed again later.

        Raises:
            TupleAlreadyDoneError: if it was acked or failed before.
        """
        if self._is_open(tuple_, "retry"):
            self.retries.retry(tuple_, as_text(message), delay, rows)

    def withdraw(self, tuple_: Tuple) -> None:
        """A tuple will be executed again: records of the execution before do not ack it."""
        self.times.forget(tuple_)
        self.writes.withdraw(tuple_)

    def emitted_for(self, anchors: Sequence[Tuple]) -> None:
        """Notes the anchors of a tuple: in a transaction they are settled together, and the tuple leaves with them."""
        self._outbox.link(_places(anchors))

    def unanchored(self, trace_context: Headers) -> tuple[InputBatch, int]:
        """The batch and the place of a tuple without a tree: in a transaction it leaves with the inputs of the call."""
        return self._outbox.unanchored([*_places(self.executing)], trace_context)

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

    def expire(self, packs: Sequence[InputPack]) -> None:
        """Fails the inputs of packs that are open for longer than any tree: their trees must not complete."""
        for pack in packs:
            pack.has_expired = True
            for index in np.flatnonzero(np.frombuffer(pack.settled, np.uint8) == 0).tolist():
                self._keep_open(pack, index)
                pack.settled[index] = FAILED
                self._note(pack, index)
        self.times.forget_expired()

    def is_open(self, offset: int) -> bool:
        """Whether the record at an offset was read, and is not done."""
        return self._inputs.is_open(offset)

    def too_late(self, action: str, tuple_: Tuple) -> TupleAlreadyDoneError:
        """Fails the trees of a tuple that is done, and returns the error of an emit or a write for it."""
        error = tuple_.pack.already_done(action)
        self._fail_trees(tuple_, f"{self._component}: {error}")
        return error

    @property
    def has_noted(self) -> bool:
        """Whether there is anything for `settle`."""
        return bool(self._noted) or not self.writes.is_empty

    def received(self, pack: InputPack) -> None:
        """Opens a pack that the step before has emitted."""
        self._inputs.open(pack)

    def count(self) -> None:
        """Counts what is open, at the inputs that the task has read.

        A flush calls it when no tuple is buffered for a step behind, and for all steps before any input is settled.
        """
        self.writes.count()
        for pack, rows in self._noted:
            if pack.is_counted:
                pack.batch.count_open(pack.places_of(rows), -1)
        for pack in self._inputs.take_opened():
            batch = pack.batch
            if pack.left and batch.is_tracked and (self._is_transactional or isinstance(batch, ChainedBatch)):
                is_open = np.frombuffer(pack.settled, np.uint8) == 0
                batch.count_open(pack.places_of(np.flatnonzero(is_open)), 1)
                pack.is_counted = True

    def settle(self) -> None:
        """Ends the inputs that are acked or failed, if nothing is open that was made of them."""
        noted, self._noted, self._last = self._noted, [], None
        for batch in [each for each in self._waiting if each.take_released()]:
            self._end_ready(batch, self._waiting.pop(batch))
        for batch, group in groupby(noted, key=_batch_of):
            if batch.has_counts:
                self._end_ready(batch, list(group))
            else:
                self._end_all(group)

    @property
    def can_commit(self) -> bool:
        """Whether no input waits that would change a state, or write a record, again when it is read again."""
        if not (self._has_state and self._waiting):
            return True
        waiting = self._waiting.items()
        return not self.writes_at_once and not any(
            _has_no_identity(batch, pack.places_of(rows)) for batch, group in waiting for pack, rows in group
        )

    def _end_ready(self, batch: InputBatch, group: Sequence[Noted]) -> None:
        """Ends inputs of a batch, if nothing is open that was made of them; the others wait."""
        if len(group) > 1 and all(len(rows) == 1 and pack.starts is None for pack, rows in group):
            # Records of one tuple each: looked at together.
            waits = batch.has_open([pack.first + int(rows[0]) for pack, rows in group])
            if waits is not None:
                self._waiting.setdefault(batch, []).extend(compress(group, waits))
                group = list(compress(group, ~waits))
            self._end_all(group)
            return
        for pack, rows in group:
            indices = np.asarray(rows, np.intp)
            waits = batch.has_open(pack.places_of(indices))
            if waits is None:
                self._end(pack, rows)
                continue
            if pack.starts is not None:
                counts = np.diff(pack.starts)[indices]
                waits = np.bincount(np.repeat(np.arange(len(indices)), counts)[waits], minlength=len(indices)) > 0
            self._waiting.setdefault(batch, []).append(Noted(pack, indices[waits]))
            if not waits.all():
                self._end(pack, indices[~waits])

    def _end_all(self, group: Iterable[Noted]) -> None:
        for pack, rows in group:
            self._end(pack, rows)

    def _end(self, pack: InputPack, rows: Sequence[int] | Rows) -> None:
        """Ends tuples; acks of the task's own inputs are sent with this flush."""
        if pack.batch.is_tracked and not isinstance(pack.batch, ChainedBatch):
            self._add_acks(pack, rows)
        if isinstance(rows, range):
            pack.settled[rows.start : rows.stop] = bytes([DONE]) * len(rows)
        elif len(rows) == 1:
            pack.settled[rows[0]] = DONE
        else:
            np.frombuffer(pack.settled, np.uint8)[rows] = DONE
        self.close(pack, len(rows))

    def _add_acks(self, pack: InputPack, rows: Sequence[int] | Rows) -> None:
        """Adds the places of acked tuples to the next ack batch; the trees of failed tuples have failed."""
        acked, batch, settled = self._outbox.acked, pack.batch, pack.settled
        if len(rows) == 1 and pack.starts is None:
            if settled[rows[0]] == ACKED:
                acked.add(batch, pack.first + int(rows[0]))
            return
        is_run = isinstance(rows, range) and pack.starts is None
        if is_run and settled.count(ACKED, rows[0], rows[-1] + 1) == len(rows):
            acked.add_range(batch, range(pack.first + int(rows[0]), pack.first + int(rows[-1]) + 1))
            return
        indices = np.asarray(rows, np.intp)
        is_acked = np.frombuffer(settled, np.uint8)[indices] == ACKED
        acked.add_all(batch, pack.places_of(indices[is_acked]))

    def ack_indices(self, pack: InputPack, rows: Sequence[int] | Rows) -> None:
        """Acks tuples of a pack that are not settled, by their indices."""
        self._counters.acked += len(rows)
        if self.times:
            self.times.acked(pack, rows)
        if isinstance(rows, range):
            pack.settled[rows.start : rows.stop] = bytes([ACKED]) * len(rows)
        else:
            np.frombuffer(pack.settled, np.uint8)[rows] = ACKED
        self._last = None
        if isinstance(rows, range) and self._noted:
            before = self._noted[-1]
            if before.pack is pack and isinstance(before.rows, range) and before.rows.stop == rows.start:
                self._noted.pop()
                rows = range(before.rows.start, rows.stop)
        self._noted.append(Noted(pack, rows))

    def _note(self, pack: InputPack, index: int) -> None:
        if pack is self._last:
            self._last_rows.append(index)
        else:
            self._last, self._last_rows = pack, [index]
            self._noted.append(Noted(pack, self._last_rows))

    @staticmethod
    def _is_open(tuple_: Tuple, action: str) -> bool:
        """False for a tick tuple and one that has expired; raises `TupleAlreadyDoneError` if it is settled."""
        pack = tuple_.pack
        if pack.settled[tuple_.index] and not pack.has_expired:
            raise pack.already_done(action)
        return pack.offset != NO_OFFSET and not pack.settled[tuple_.index]

    def _settle(self, tuple_: Tuple) -> None:
        if not tuple_.settled:
            tuple_.pack.settled[tuple_.index] = FAILED
            self._note(tuple_.pack, tuple_.index)

    def fail_late(self, tuple_: Tuple, message: str) -> None:
        """Fails the trees of a tuple that is not done; it may be acked."""
        self.times.forget(tuple_)
        self._counters.count_failed(FailReason.FAILED, message)
        self._fail_trees(tuple_, self._of_step(message))
        self._settle(tuple_)
        self._run_hooks(lambda hook: hook.bolt_fail(tuple_, message))

    def _fail_trees(self, tuple_: Tuple, message: str) -> None:
        """Fails the trees of a tuple; an edge that no tuple carries keeps them from completing first."""
        pack, index = tuple_.pack, tuple_.index
        self._keep_open(pack, index)
        if pack.settled[index] == ACKED:
            pack.settled[index] = FAILED  # no ack is sent
        for root in tuple_.roots:
            self._outbox.fail(root, message)

    def _keep_open(self, pack: InputPack, index: int) -> None:
        self._outbox.keep_open((pack.batch, place) for place in pack.places(index))

    def _of_step(self, message: str) -> str:
        """A message that names the step, unless the writer of the entries does."""
        is_first = self._outbox.component == self._component
        return message if is_first else f"{self._component}/{self._task}: {message}"

    def close(self, pack: InputPack, tuples: int) -> None:
        """Closes a pack when no more of its tuples are open."""
        pack.left -= tuples
        if not pack.left:
            self._inputs.end(pack)


def as_text(message: str | BaseException) -> str:
    """A reason as text; of an exception its type and text."""
    return describe(message) if isinstance(message, BaseException) else text_of(message)


def _batch_of(noted: Noted) -> InputBatch:
    return noted.pack.batch


def _has_no_identity(batch: InputBatch, places: Rows) -> bool:
    """Whether one of these places has no identity: if its tuple were read again, a state would change again."""
    return not batch.is_identified or bool((batch.positions[places] == np.uint64(NO_POSITION)).any())


def _places(tuples: Iterable[Tuple]) -> Iterator[tuple[InputBatch, int]]:
    return ((each.pack.batch, place) for each in tuples for place in each.pack.places(each.index))

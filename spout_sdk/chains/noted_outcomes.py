"""Outcomes in a task with chained bolts: acks and fails are noted, and settled when the task flushes.

An input of the task is done when it is acked and none of its chained inputs is open. Open chained inputs are counted
(`InputBatch.count_open`) only if they are still open when the task flushes.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spout_sdk.api.tuples import ACKED, DONE, FAILED, NO_OFFSET, InputPack, Tuple
from spout_sdk.bolts.arrow_collector import ArrowInput
from spout_sdk.bolts.outcomes import Outcomes, as_text
from spout_sdk.bolts.pending_writes import WriteGroup
from spout_sdk.emitting.task import Task
from spout_sdk.errors import TupleAlreadyDoneError
from tuple_tree.anchors import Rows
from tuple_tree.chained_batch import ChainedBatch
from tuple_tree.errors import WireError
from tuple_tree.identities import NO_POSITION
from tuple_tree.input_batch import InputBatch


class Noted(NamedTuple):
    """The indices of acked or failed tuples of one pack."""

    pack: InputPack
    rows: Sequence[int] | Rows

    @property
    def indices(self) -> Rows:
        return np.asarray(self.rows, np.intp)


class NotedOutcomes(Outcomes, ABC):
    """Outcomes that are noted until `settle`."""

    def __init__(self, task: Task, inputs: Any) -> None:
        super().__init__(task, inputs)
        self._noted: list[Noted] = []

    def ack_together(self, tuples: Sequence[Tuple]) -> None:
        pack = tuples[0].pack if tuples else None
        if pack is None or self._unwritten or pack.offset == NO_OFFSET:
            for tuple_ in tuples:
                self.ack(tuple_)
            return
        first, behind = tuples[0].index, tuples[-1].index + 1
        rows: Sequence[int] = range(first, behind)
        if len(rows) == len(tuples):
            pack.settled[first:behind] = bytes([ACKED]) * len(tuples)
        else:
            rows = [tuple_.index for tuple_ in tuples]
            for row in rows:
                pack.settled[row] = ACKED
        self._noted.append(Noted(pack, rows))
        self._counters.acked += len(tuples)
        for tuple_ in tuples if self._hooks else ():
            self._run_hooks(lambda hook, tuple_=tuple_: hook.bolt_ack(tuple_))  # type: ignore[misc]

    def ack_rows(self, input_: ArrowInput, rows: Rows) -> None:
        input_.settle(rows, ACKED)
        self._noted.append(Noted(input_.pack, input_.indices[rows]))
        self._counters.acked += len(rows)

    def too_late(self, action: str, tuple_: Tuple) -> TupleAlreadyDoneError:
        if not tuple_.settled:
            return super().too_late(action, tuple_)
        error = tuple_.pack.already_done(action)
        self._fail_trees(tuple_, f"{self._component}: {error}")
        return error

    @property
    def has_noted(self) -> bool:
        """Whether outcomes were noted since the last `settle`."""
        return bool(self._noted)

    @abstractmethod
    def settle(self) -> None:
        """Settles noted outcomes; called when no tuple is buffered for a chained bolt."""

    def _acked_one(self, tuple_: Tuple) -> None:
        tuple_.pack.settled[tuple_.index] = ACKED
        self._note(tuple_.pack, tuple_.index)

    def _note(self, pack: InputPack, index: int) -> None:
        noted = self._noted
        if noted and noted[-1].pack is pack and noted[-1].rows.__class__ is list:
            noted[-1].rows.append(index)
        else:
            noted.append(Noted(pack, [index]))

    def _fail_trees(self, tuple_: Tuple, message: str) -> None:
        """Fails the trees of a tuple; an edge that no tuple carries keeps them from completing first."""
        self._keep_open(tuple_.pack, tuple_.index)
        for root in tuple_.roots:
            self._outbox.fail(root, message)

    def _keep_open(self, pack: InputPack, index: int) -> None:
        """Keeps the trees of a tuple from completing."""
        self._outbox.keep_open((pack.batch, place) for place in pack.places(index))

    def _settle(self, tuple_: Tuple) -> None:
        if not tuple_.settled:
            tuple_.pack.settled[tuple_.index] = FAILED
            self._note(tuple_.pack, tuple_.index)


class HeadOutcomes(NotedOutcomes):
    """Outcomes of the inputs of a head, which are done after their chained inputs."""

    def __init__(self, task: Task, inputs: Any) -> None:
        super().__init__(task, inputs)
        component = task.context.manifest.component(task.context.component)
        self._has_state = getattr(component, "state", None) is not None
        self._held: list[Noted] = []  # noted before, with open chained inputs

    def settle(self) -> None:
        noted, self._noted, self._held = [*self._held, *self._noted], [], []
        for each in noted:
            pack, rows = each
            waiting = _waiting(each)
            if waiting is not None:
                indices = each.indices
                self._held.append(Noted(pack, indices[waiting]))
                if self._has_state:
                    pack.batch.note_effects(_without_identity(pack.batch, _places(pack, indices[waiting])))
                rows = indices[~waiting]
                if not len(rows):
                    continue
            self._done(pack, rows)

    def _done(self, pack: InputPack, rows: Sequence[int] | Rows) -> None:
        """Settles tuples without open chained inputs."""
        if pack.batch.is_tracked:
            self._acked_places(pack, rows)
        if isinstance(rows, range):
            pack.settled[rows.start : rows.stop] = bytes([DONE]) * len(rows)
        else:
            np.frombuffer(pack.settled, np.uint8)[rows] = DONE
        self._close(pack, len(rows))

    def _acked_places(self, pack: InputPack, rows: Sequence[int] | Rows) -> None:
        """Notes the places of acked tuples for the next flush; the trees of failed tuples have failed."""
        states = np.frombuffer(pack.settled, np.uint8)[np.asarray(rows, np.intp)]
        is_acked = states == ACKED
        if isinstance(rows, range) and pack.starts is None and is_acked.all():
            self._acked.add_range(pack.batch, range(pack.first + rows.start, pack.first + rows.stop))
            return
        places = [place for row in np.asarray(rows, np.intp)[is_acked].tolist() for place in pack.places(row)]
        self._acked.add_all(pack.batch, places)


class ChainedOutcomes(NotedOutcomes):
    """Outcomes of the inputs of a chained bolt; open inputs are counted at their head inputs."""

    def __init__(self, task: Task, inputs: Any) -> None:
        super().__init__(task, inputs)
        self._new: list[InputPack] = []

    def opened(self, pack: InputPack) -> None:
        """Adds a pack that the bolt has received."""
        self._new.append(pack)
        self._inputs.open(pack)

    def settle(self) -> None:
        noted, self._noted = self._noted, []
        ended = []
        for each in noted:
            pack, rows = each
            if isinstance(pack.batch, ChainedBatch) and pack.batch.is_counted:
                pack.batch.count_open(_places(pack, each.indices), -1)
            np.frombuffer(pack.settled, np.uint8)[each.indices] = DONE
            pack.left -= len(rows)
            if not pack.left:
                ended.append(pack)
        if ended:
            self._inputs.settle(ended)
        new, self._new = self._new, []
        for pack in new:
            if pack.left and isinstance(pack.batch, ChainedBatch):
                is_open = np.frombuffer(pack.settled, np.uint8) != DONE
                pack.batch.count_open(_places(pack, np.flatnonzero(is_open)), 1)
                pack.batch.is_counted = True

    def expire(self, packs: Sequence[InputPack]) -> None:
        """Fails the inputs of packs that are open for longer than any tree: their trees must not complete."""
        for pack in packs:
            pack.has_expired = True
            for index in np.flatnonzero(np.frombuffer(pack.settled, np.uint8) == 0).tolist():
                self._keep_open(pack, index)
                pack.settled[index] = FAILED
                self._note(pack, index)

    def reject(self, tuple_: Tuple, error: WireError) -> None:
        self._keep_open(tuple_.pack, tuple_.index)
        super().reject(tuple_, error)

    def fail(self, tuple_: Tuple, message: str | BaseException) -> None:
        if tuple_.offset != NO_OFFSET and not self.is_done(tuple_):
            # The head input is acked when none of its chained inputs is open.
            self._keep_open(tuple_.pack, tuple_.index)
            message = self._as_own(as_text(message))
        super().fail(tuple_, message)

    def _mark(self, tuple_: Tuple, message: str) -> None:
        super()._mark(tuple_, self._as_own(message))

    def _as_own(self, message: str) -> str:
        # The head writes the entry.
        return f"{self._component}/{self._task}: {message}"

    def write(self, tuple_: Tuple, *record: object) -> None:
        super().write(tuple_, *record)  # type: ignore[arg-type]
        self._wrote(tuple_.pack, (tuple_.index,))

    def _wrote(self, pack: InputPack, indices: Sequence[int]) -> None:
        # With `exactly_once`, the record is an effect of these head inputs only.
        if indices and not self._inputs.has_no_effects and pack.batch.is_tracked:
            self.written -= len(indices)
            pack.batch.note_effects(_places(pack, np.array(indices, np.intp)))

    def _ack_group(self, group: WriteGroup, indices: Sequence[int]) -> None:
        if self._hooks or self._unwritten:
            super()._ack_group(group, indices)
        elif self._inputs.is_open(group.pack.offset):
            indices, settled = group.still_open(indices), group.pack.settled
            for index in indices:
                settled[index] = ACKED
            self._noted.append(Noted(group.pack, indices))
            self._counters.acked += len(indices)


def _places(pack: InputPack, indices: Rows) -> Rows:
    """The places of tuples in the batch of their pack, which is tracked."""
    if pack.starts is None:
        return indices + pack.first
    places: Rows = pack.first + np.concatenate(
        [np.arange(pack.starts[index], pack.starts[index + 1]) for index in indices.tolist()] or [indices[:0]]
    )
    return places


def _without_identity(batch: InputBatch, places: Rows) -> Rows:
    """The places of tuples without an identity: if they were read again, a state would change again."""
    if not batch.is_identified:
        return places
    without: Rows = places[batch.positions[places] == np.uint64(NO_POSITION)]
    return without


def _waiting(noted: Noted) -> NDArray[np.bool_] | None:
    """Shape `(n,)`: whether each tuple has open chained inputs; None if no tuple has any."""
    pack = noted.pack
    if not (pack.batch.is_tracked and pack.batch.has_counts):
        return None
    indices = noted.indices
    is_open = pack.batch.has_open(_places(pack, indices))
    if is_open is None or pack.starts is None:
        return is_open
    counts = np.diff(pack.starts)[indices]
    return np.bincount(np.repeat(np.arange(len(indices)), counts)[is_open], minlength=len(indices)) > 0

"""The open records of a task's input, and the done set that may be committed."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from spout_sdk.api.tuples import DONE, InputPack
from spout_sdk.emitting.open_inputs import OpenInputs
from tuple_tree.anchors import Rows
from tuple_tree.done_sets import DoneSet
from tuple_tree.input_batch import InputBatch
from tuple_tree.offsets import OffsetManager, Runs


class InputOffsets(OffsetManager, OpenInputs):
    """The offsets of one input partition, each of a record with tuples.

    A record is done when all its tuples were acked or failed, and the ack batches about them were delivered.

    With `exactly_once`, an open tuple is read again after a crash, so it must not have had an effect when a transaction
    ends. Tuples and records that are anchored to a tuple are effects of it. One without anchors may be an effect of
    each tuple that was open then. Acks and fails are not effects: a settled tuple is in the committed set.

    Args:
        unanchored: with `exactly_once`, returns how many tuples and records of users the task has sent without an
            anchor.
    """

    def __init__(self, unanchored: Callable[[], int] | None = None) -> None:
        OffsetManager.__init__(self)
        OpenInputs.__init__(self)
        self.has_no_effects = unanchored is None
        self._ended: list[InputPack] = []
        self._done_tuples: dict[int, Runs] = {}  # done tuples of open records, committed by another owner
        self._delivered: Mapping[int, Runs] = {}
        self._unanchored = unanchored
        self._with_children: InputPack | None = None  # the open record that was last found to have children
        # Offset of a record → how much was sent without an anchor before it, for each change of that number.
        self._traces: deque[tuple[int, int]] = deque()

    def continue_from(self, done: DoneSet) -> None:
        """Continues from the done set that another owner has committed, before the first record is read."""
        OffsetManager.__init__(self, done.offset, done.runs)
        self._done_tuples = dict(done.tuples)

    def open(self, pack: InputPack) -> None:
        """Opens a record that was started, except for its tuples that are done already.

        If the committed tuples do not fit the record, as after a change of the topology, all of its tuples are open.
        """
        offset = pack.offset
        if runs := self._done_tuples.get(offset, ()):
            done = sum(end - begin for begin, end in runs)
            if runs[-1][1] <= pack.size and done < pack.size:
                for begin, end in runs:
                    pack.settled[begin:end] = b"\1" * (end - begin)
                pack.left -= done
            else:
                del self._done_tuples[offset]
        super().open(pack)
        if self._unanchored is not None:
            sent = self._unanchored()
            if not self._traces or self._traces[-1][1] != sent:
                self._traces.append((offset, sent))

    def end(self, pack: InputPack) -> None:
        """Notes a record whose tuples are all acked or failed, by entries that are not sent."""
        self._ended.append(pack)

    @property
    def has_ended(self) -> bool:
        """Whether a record has ended since the last `take_ended`."""
        return bool(self._ended)

    def take_ended(self) -> list[InputPack]:
        """The records that have ended since the last call; pass them to `settle` when the entries are delivered."""
        ended, self._ended = self._ended, []
        return ended

    def settle(self, packs: Sequence[InputPack]) -> None:
        """Closes records whose entries are delivered."""
        self._forget(packs)
        for pack in packs if self._done_tuples else ():
            self._done_tuples.pop(pack.offset, None)
        self.all_done([pack.offset for pack in packs])

    def note_tuples(self) -> Mapping[int, Runs]:
        """The done tuples of open records; pass them to `tuples_delivered` when all acks so far are delivered."""
        return self._tuples_done()

    def tuples_delivered(self, noted: Mapping[int, Runs]) -> None:
        """Notes that the acks of these tuples are delivered."""
        self._delivered = noted

    def delivered(self) -> DoneSet | None:
        """The done set whose acks are delivered; None before the first record."""
        return self._done_set({at: runs for at, runs in self._delivered.items() if at in self._packs})

    def settled(self) -> DoneSet | None:
        """The done set, including acks that are part of an open transaction; None before the first record."""
        return self._done_set(self._tuples_done())

    @property
    def is_repeatable(self) -> bool:
        """Whether all open records can be read again without a repeated effect."""
        traces, oldest = self._traces, self.oldest_open
        if self._unanchored is None or oldest is None or self.has_no_effects:
            traces.clear()
            return True
        while len(traces) > 1 and traces[1][0] <= oldest:
            traces.popleft()
        return self._unanchored() == traces[0][1] and not self._have_children()

    def _have_children(self) -> bool:
        """Whether a tuple or record was sent that is anchored to an open tuple."""
        packs, last = self._packs, self._with_children
        # Called every few milliseconds while a transaction waits, mostly for one record.
        if last is not None and packs.get(last.offset) is last and _has_children(last):
            return True
        places: dict[InputBatch, list[int] | None] = {}
        for pack in packs.values():
            if (batch := pack.batch) not in places:
                places[batch] = [] if batch.is_tracked and batch.has_children(slice(0, batch.size)) else None
            if (found := places[batch]) is None or not pack.left:
                continue
            if pack.size == 1 and pack.starts is None:
                found.append(pack.first)
            else:
                found += _open_places(pack).tolist()
        batches = {batch for batch, found in places.items() if found and batch.has_children(found)}
        of_these = (pack for pack in packs.values() if pack.batch in batches)
        self._with_children = next(filter(_has_children, of_these)) if batches else None
        return bool(batches)

    def _done_set(self, tuples: dict[int, Runs]) -> DoneSet | None:
        if (offset := self.committable) is None:
            return None
        read_to, packs = self.read_to or 0, self._packs
        before = {at: runs for at, runs in self._done_tuples.items() if at >= read_to or at in packs}
        return DoneSet(offset, self.runs, before | tuples)

    def _tuples_done(self) -> dict[int, Runs]:
        # A record with untracked tuples whose records are not delivered has more left than tuples that are not done.
        return {
            at: _runs(pack.settled)
            for at, pack in self._packs.items()
            if 0 < pack.left < pack.size and pack.left == pack.size - pack.settled.count(DONE)
        }


def _runs(settled: bytearray) -> Runs:
    """The runs of indices of tuples that are done, as pairs of begin and end."""
    bounds = np.flatnonzero(np.diff(np.frombuffer(b"\0" + settled + b"\0", np.uint8) == DONE))
    return [(begin, end) for begin, end in bounds.reshape(-1, 2).tolist()]


def _open_places(pack: InputPack) -> Rows:
    """The places of the open tuples of a pack in its batch."""
    return pack.places_of(np.flatnonzero(np.frombuffer(pack.settled, np.uint8) != DONE))


def _has_children(pack: InputPack) -> bool:
    return pack.batch.has_children(_open_places(pack))

"""The open records of a task's input, the done set that may be committed, and when open records expire."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spout_sdk.api.tuples import DONE, UNKNOWN_STREAM, InputPack
from tuple_tree.anchors import Rows
from tuple_tree.done_sets import DoneSet
from tuple_tree.ids import IdColumn
from tuple_tree.input_batch import InputBatch
from tuple_tree.offsets import OffsetManager, Runs

_MARK_SECONDS: Final = 1.0


class InputOffsets(OffsetManager):
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
        super().__init__()
        # Whether an open record cannot have had an effect: a bolt emits for it when it is acked.
        self.has_no_effects = unanchored is None
        self._packs: dict[int, InputPack] = {}
        self._tuples = 0
        self._done_tuples: dict[int, Runs] = {}  # done tuples of open records, committed by another owner
        self._delivered: Mapping[int, Runs] = {}
        self._kept_to = -1  # open records up to this offset are too old, but must not expire
        # The last offset that was started, once a second, with the time.
        self._marks: deque[tuple[float, int]] = deque()
        self._mark_at = 0.0
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
        self._packs[offset] = pack
        self._tuples += pack.size
        if self._unanchored is not None:
            sent = self._unanchored()
            if not self._traces or self._traces[-1][1] != sent:
                self._traces.append((offset, sent))

    def is_open(self, offset: int) -> bool:
        """Whether the record at an offset was opened, and is not settled."""
        return offset in self._packs

    def settle(self, packs: Sequence[InputPack]) -> None:
        """Closes records that are done."""
        for pack in packs:
            self._forget(pack.offset)
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

    def expire(self, now: float, max_age: float) -> list[InputPack]:
        """Closes and returns records that are open for longer than any tree: a missing ack would block commits.

        All records up to a mark of `max_age` seconds ago are too old: their trees have failed, and were replayed.
        """
        stale: list[InputPack] = []
        if now < self._mark_at:
            return stale
        self._mark_at = now + _MARK_SECONDS
        marks, oldest = self._marks, self.oldest_open
        if oldest is not None:
            marks.append((now, self.last_started))
        while marks and (oldest is None or marks[0][1] < oldest):
            marks.popleft()
        while marks and now - marks[0][0] >= max_age:
            kept_to, self._kept_to = self._kept_to, marks.popleft()[1]
            for offset in self.open_to(self._kept_to):
                pack = self._packs[offset]
                # A record that waits for a process of another version is read again by that.
                if offset <= kept_to or pack.stream is UNKNOWN_STREAM:
                    continue
                stale.append(self._packs[offset])
                self._forget(offset)
                self.done(offset)
        return stale

    def open_seconds(self, now: float) -> float:
        """Age of the oldest open record in seconds, to within one."""
        # A copy, because the thread that publishes stats calls this.
        oldest = self.oldest_open
        return now - next((at for at, last in list(self._marks) if oldest is None or last >= oldest), now)

    @property
    def open_tuples(self) -> int:
        """Tuples of records that are not done."""
        return self._tuples

    def open_roots(self) -> Iterator[IdColumn]:
        """The trees of the tuples of each record that are neither acked nor failed.

        Chained bolts keep alive the trees of acked tuples that wait for them.
        """
        for pack in self._packs.values():
            if pack.left and pack.batch.is_tracked:
                yield pack.batch.roots[_places(pack, np.frombuffer(pack.settled, np.uint8) == 0)]

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
        return {at: _runs(pack.settled) for at, pack in self._packs.items() if 0 < pack.left < pack.size}

    def _forget(self, offset: int) -> None:
        pack = self._packs.pop(offset, None)
        if pack is not None:
            self._tuples -= pack.size
        if self._done_tuples:
            self._done_tuples.pop(offset, None)


def _runs(settled: bytearray) -> Runs:
    """The runs of indices of tuples that are done, as pairs of begin and end."""
    bounds = np.flatnonzero(np.diff(np.frombuffer(b"\0" + settled + b"\0", np.uint8) == DONE))
    return [(begin, end) for begin, end in bounds.reshape(-1, 2).tolist()]


def _open_places(pack: InputPack) -> Rows:
    """The places of the open tuples of a pack in its batch."""
    return _places(pack, np.frombuffer(pack.settled, np.uint8) != DONE)


def _places(pack: InputPack, chosen: NDArray[np.bool_]) -> Rows:
    if pack.starts is not None:
        chosen = np.repeat(chosen, np.diff(pack.starts))
    places: Rows = pack.first + np.flatnonzero(chosen)
    return places


def _has_children(pack: InputPack) -> bool:
    return pack.batch.has_children(_open_places(pack))

"""The open records of a task's input, and the done set that may be committed."""

from collections.abc import Mapping, Sequence

import numpy as np

from spout_sdk.api.tuples import DONE, InputPack
from spout_sdk.emitting.open_inputs import OpenInputs
from tuple_tree.done_sets import DoneSet
from tuple_tree.offsets import OffsetManager, Runs


class InputOffsets(OffsetManager, OpenInputs):
    """The offsets of one input partition, each of a record with tuples.

    A record is done when all its tuples were acked or failed, and the ack batches about them were delivered.
    """

    def __init__(self) -> None:
        OffsetManager.__init__(self)
        OpenInputs.__init__(self)
        self._ended: list[InputPack] = []
        self._done_tuples: dict[int, Runs] = {}  # done tuples of open records, committed by another owner
        self._delivered: Mapping[int, Runs] = {}

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

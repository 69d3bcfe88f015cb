"""Which offset of a task's input may be committed: the one behind all records whose tuples are settled and reported."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tuple_tree.offsets import OffsetManager

if TYPE_CHECKING:
    from spout_sdk.api.tuples import InputPack


class InputOffsets:
    """The records of one input partition that are not done."""

    def __init__(self) -> None:
        self._offsets = OffsetManager()
        self._open: dict[int, InputPack] = {}
        self._tuples = 0

    def open(self, pack: "InputPack") -> None:
        """Opens a record; offsets must come in rising order.

        Raises:
            ValueError: if its offset is not above all that were opened.
        """
        self._offsets.start(pack.offset)
        self._open[pack.offset] = pack
        self._tuples += pack.size

    def done(self, packs: "Sequence[InputPack]") -> None:
        """All tuples of these records were acked or failed, and the ack batches about them were delivered."""
        for pack in packs:
            self._forget(pack.offset)
        self._offsets.all_done([pack.offset for pack in packs])

    def settle_to(self, offset: int) -> list[int]:
        """Closes all open records up to an offset, whatever they wait for; returns their offsets."""
        stale = self._offsets.open_to(offset)
        for each in stale:
            self._forget(each)
            self._offsets.done(each)
        return stale

    def _forget(self, offset: int) -> None:
        pack = self._open.pop(offset, None)
        if pack is not None:
            self._tuples -= pack.size

    @property
    def committable(self) -> int | None:
        """The offset to commit; None before the first record."""
        return self._offsets.committable

    @property
    def oldest_open(self) -> int | None:
        """The first record that is not done; None if all are."""
        return self._offsets.oldest_open

    @property
    def last_opened(self) -> int:
        """The last offset that was opened; -1 if none was."""
        return self._offsets.last_started

    @property
    def uncommitted_count(self) -> int:
        """How many records lie behind `committable`, whether they are done or not."""
        return self._offsets.uncommitted_count

    @property
    def weight(self) -> int:
        """Tuples of records that are not done, and records that are done behind one that is not."""
        return self.uncommitted_count - self.open_count + self._tuples

    @property
    def open_count(self) -> int:
        """How many records are not done."""
        return self._offsets.open_count

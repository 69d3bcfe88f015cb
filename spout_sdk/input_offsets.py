"""Which offset of a task's input may be committed: the one behind everything that is settled and on its way."""

from collections.abc import Sequence

from tuple_tree.offsets import OffsetManager


class InputOffsets:
    """The open offsets of one input partition, where some close only when several things have been delivered.

    A tuple of several trees is covered by an entry for each of its roots, in batches of their own; its offset is done
    when the last of them was delivered.

    Args:
        offsets: what keeps them; a plain `OffsetManager` unless given.
    """

    __slots__ = ("_offsets", "_parts", "start")

    def __init__(self, offsets: OffsetManager | None = None) -> None:
        self._offsets = offsets or OffsetManager()
        self._parts: dict[int, int] = {}
        self.start = self._offsets.start
        """Opens an offset; they must come in rising order."""

    def split(self, offset: int, parts: int) -> None:
        """Says that this offset is done after so many calls of `settle` instead of one."""
        self._parts[offset] = parts

    def settle(self, offset: int) -> None:
        """One of the things that the offset waited for was delivered."""
        parts = self._parts
        if offset in parts:
            parts[offset] -= 1
            if parts[offset]:
                return
            del parts[offset]
        self._offsets.done(offset)

    def settle_all(self, offsets: Sequence[int]) -> None:
        """`settle`s each."""
        if self._parts:
            for offset in offsets:
                self.settle(offset)
            return
        self._offsets.all_done(offsets)

    @property
    def committable(self) -> int | None:
        """The offset to commit; None before the first start."""
        return self._offsets.committable

    def settle_to(self, offset: int) -> list[int]:
        """Settles all open inputs up to an offset, whatever they wait for; returns their offsets."""
        stale = self._offsets.open_to(offset)
        for each in stale:
            self._parts.pop(each, None)
            self._offsets.done(each)
        return stale

    @property
    def oldest_open(self) -> int | None:
        """The first input that is not done; None if all are."""
        return self._offsets.oldest_open

    @property
    def last_started(self) -> int:
        """The last offset that was opened; -1 if none was."""
        return self._offsets.last_started

    @property
    def uncommitted_count(self) -> int:
        """How many inputs were opened and lie behind `committable`, whether they are done or not."""
        return self._offsets.uncommitted_count

    @property
    def open_count(self) -> int:
        """How many inputs are not done."""
        return self._offsets.open_count

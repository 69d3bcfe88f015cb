"""Which offset of a task's input may be committed: the one behind everything that is settled and on its way."""

from collections import Counter
from collections.abc import Sequence

from tuple_tree.offsets import OffsetManager


class InputOffsets:
    """The open offsets of one input partition, where some close only when several things have been delivered.

    A record carries several tuples, and a tuple of several trees is covered by an entry for each of its roots, in
    batches of their own; the offset is done when the last of them was delivered.

    Args:
        offsets: what keeps them; a plain `OffsetManager` unless given.

    Attributes:
        waiting: how many calls of `settle` open offsets wait for, beyond one each.
    """

    __slots__ = ("_offsets", "_parts", "start", "waiting")

    def __init__(self, offsets: OffsetManager | None = None) -> None:
        self._offsets = offsets or OffsetManager()
        self._parts: dict[int, int] = {}
        self.waiting = 0
        self.start = self._offsets.start
        """Opens an offset; they must come in rising order."""

    def expect(self, offset: int, more: int) -> None:
        """Says that this offset is done after so many more calls of `settle`."""
        self._parts[offset] = self._parts.get(offset, 1) + more
        self.waiting += more

    def settle(self, offset: int, times: int = 1) -> None:
        """Some of the things that the offset waited for were delivered."""
        left = self._parts.get(offset)
        if left is not None:
            if times < left:
                self._parts[offset] = left - times
                self.waiting -= times
                self._offsets.partly_done(offset)
                return
            self.waiting -= left - 1
            del self._parts[offset]
        self._offsets.done(offset)

    def settle_all(self, offsets: Sequence[int]) -> None:
        """`settle`s each."""
        if self._parts:
            for offset, times in Counter(offsets).items():
                self.settle(offset, times)
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
            self.waiting -= self._parts.pop(each, 1) - 1
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

"""The open inputs of a chained bolt: packs that it has received, and that are not settled."""

from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np

from spout_sdk.api.tuples import InputPack
from tuple_tree.ids import IdColumn

_MARK_SECONDS = 1.0


class ChainedInputs:
    """The open packs by number; their offsets are not committed.

    `bolts.outcomes` describes the methods of `InputOffsets` that it has.

    Attributes:
        has_no_effects: whether an open input cannot have had an effect.
        untracked: how many open packs have untracked tuples.
        open_tuples: how many tuples the open packs have.
    """

    def __init__(self, *, has_no_effects: bool) -> None:
        self.has_no_effects = has_no_effects
        self.open_tuples = self.untracked = 0
        self._packs: dict[int, InputPack] = {}
        self._marks: deque[tuple[float, int]] = deque()  # once a second: the time, and the number of the newest pack
        self._mark_at = 0.0
        self._last = -1

    def open(self, pack: InputPack) -> None:
        self._packs[pack.offset] = pack
        self._last = pack.offset
        self.open_tuples += pack.size
        self.untracked += pack.has_untracked

    def settle(self, packs: Sequence[InputPack]) -> None:
        """Removes packs that are done; packs that were removed before are ignored."""
        for pack in packs:
            if self._packs.pop(pack.offset, None) is not None:
                self.open_tuples -= pack.size
                self.untracked -= pack.has_untracked

    def is_open(self, number: int) -> bool:
        return number in self._packs

    def expire(self, now: float, max_age: float) -> list[InputPack]:
        """Removes and returns the packs that are open for longer than `max_age` seconds."""
        if now < self._mark_at:
            return []
        self._mark_at = now + _MARK_SECONDS
        marks, stale = self._marks, list[InputPack]()
        if self._packs:
            marks.append((now, self._last))
        else:
            marks.clear()
        while marks and now - marks[0][0] >= max_age:
            _, last = marks.popleft()
            stale += [pack for number, pack in self._packs.items() if number <= last]
            self.settle(stale)
        return stale

    def open_roots(self) -> Iterator[IdColumn]:
        """The roots of the open tuples of each pack."""
        for pack in self._packs.values():
            if pack.left and pack.batch.is_tracked:
                is_open = np.frombuffer(pack.settled, np.uint8) == 0
                if pack.starts is not None:
                    is_open = np.repeat(is_open, np.diff(pack.starts))
                yield pack.batch.roots[np.flatnonzero(is_open)]

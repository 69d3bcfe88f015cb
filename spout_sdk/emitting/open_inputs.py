"""The open packs of a step: records that its task has read, or what the step before it has emitted."""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from spout_sdk.api.tuples import UNKNOWN_STREAM, InputPack
from tuple_tree.ids import IdColumn

_MARK_SECONDS: Final = 1.0


class OpenInputs:
    """The open packs by number, and when they expire.

    Attributes:
        open_tuples: how many tuples the open packs have.
        untracked: how many open packs have untracked tuples.
    """

    def __init__(self) -> None:
        self.open_tuples = self.untracked = 0
        self._packs: dict[int, InputPack] = {}
        self._opened: list[InputPack] = []
        self._marks: deque[tuple[float, int]] = deque()  # once a second: the time, and the number of the newest pack
        self._mark_at = 0.0
        self._newest = -1

    def open(self, pack: InputPack) -> None:
        self._packs[pack.offset] = pack
        self._opened.append(pack)
        self._newest = pack.offset
        self.open_tuples += pack.size
        self.untracked += pack.has_untracked

    def end(self, pack: InputPack) -> None:
        """Closes a pack whose tuples are done."""
        self._forget([pack])

    def take_opened(self) -> list[InputPack]:
        """The packs that were opened since the last call."""
        opened, self._opened = self._opened, []
        return opened

    def is_open(self, number: int) -> bool:
        """Whether a pack was opened, and is not closed."""
        return number in self._packs

    @property
    def oldest_open(self) -> int | None:
        """The number of the oldest open pack; None without one."""
        return next(iter(self._packs), None)

    def expired(self, now: float, max_age: float) -> list[InputPack]:
        """The packs with inputs that are not settled for longer than `max_age` seconds: their trees have failed.

        A record that waits for a process of another version never expires: that process reads it again.
        """
        if now < self._mark_at:
            return []
        self._mark_at = now + _MARK_SECONDS
        marks, oldest = self._marks, self.oldest_open
        if oldest is not None:
            marks.append((now, self._newest))
        while marks and (oldest is None or marks[0][1] < oldest):
            marks.popleft()
        last = -1
        while marks and now - marks[0][0] >= max_age:
            last = marks.popleft()[1]
        if last < 0:
            return []
        old = (pack for number, pack in self._packs.items() if number <= last)
        return [pack for pack in old if 0 in pack.settled and pack.stream is not UNKNOWN_STREAM]

    def open_seconds(self, now: float) -> float:
        """Age of the oldest open pack in seconds, to within one."""
        oldest = self.oldest_open
        # A copy, because the thread that publishes stats calls this.
        return now - next((at for at, last in list(self._marks) if oldest is None or last >= oldest), now)

    def open_roots(self) -> Iterator[IdColumn]:
        """The trees of the tuples of each pack that are neither acked nor failed.

        The steps behind keep alive the trees of acked tuples that wait for them.
        """
        for pack in self._packs.values():
            if pack.left and pack.batch.is_tracked:
                yield pack.batch.roots[pack.places_of(np.flatnonzero(np.frombuffer(pack.settled, np.uint8) == 0))]

    def _forget(self, packs: Sequence[InputPack]) -> None:
        for pack in packs:
            if self._packs.pop(pack.offset, None) is not None:
                self.open_tuples -= pack.size
                self.untracked -= pack.has_untracked

"""Which offsets of a source partition are still open, and how far it may be committed.

Outcomes come in any order, but a committed offset says that everything before it is done. The manager keeps the
offsets that were started, in order, and those done ahead of the first open one (the holes are what is between).
Offsets need not be contiguous: compaction and transaction markers leave gaps.
"""

from collections import deque
from collections.abc import Iterable


class OffsetManager:
    """The open offsets of one partition.

    `start` and `done` cost amortised O(1); memory is one entry for each offset behind the first open one.
    """

    __slots__ = ("_ahead", "_committable", "_open", "_started")

    def __init__(self) -> None:
        self._open: deque[int] = deque()
        self._ahead: set[int] = set()
        self._committable: int | None = None
        self._started = -1

    def start(self, offset: int) -> None:
        """Opens an offset; they must come in rising order.

        Raises:
            ValueError: if the offset is not above all that were started.
        """
        if offset <= self._started:
            raise ValueError(f"offset {offset} was started after offset {self._started}: offsets must rise")
        self._started = offset
        self._open.append(offset)
        if self._committable is None:
            self._committable = offset

    def done(self, offset: int) -> None:
        """Closes an offset that was started; it is counted as committable once all before it are closed."""
        open_ = self._open
        if not open_ or offset < open_[0]:
            return
        if offset != open_[0]:
            self._ahead.add(offset)
            return
        last = open_.popleft()
        while open_ and open_[0] in self._ahead:
            last = open_.popleft()
            self._ahead.remove(last)
        self._committable = last + 1

    def all_done(self, offsets: Iterable[int]) -> None:
        """Closes offsets that were started; quickest if they come in the order in which they were."""
        open_ = self._open
        last = None
        for offset in offsets:
            if open_ and offset == open_[0] and not self._ahead:
                last = open_.popleft()
            else:
                if last is not None:
                    self._committable, last = last + 1, None
                self.done(offset)
        if last is not None:
            self._committable = last + 1

    @property
    def committable(self) -> int | None:
        """The offset to commit: one after the last before which all are done; None before the first start.

        That of the first start as long as it is open. As in Storm, a gap in the log is only passed by what lies behind
        it and is done; who reads on from before the gap or from behind it reads the same.
        """
        return self._committable

    @property
    def oldest_open(self) -> int | None:
        """The first offset that is started and not done; None if all are done."""
        return self._open[0] if self._open else None

    @property
    def done_ahead(self) -> int:
        """How many offsets are done although one before them is open."""
        return len(self._ahead)

    @property
    def open_count(self) -> int:
        """How many offsets are started and not done."""
        return len(self._open) - len(self._ahead)

    @property
    def uncommitted_count(self) -> int:
        """How many offsets were started and lie behind `committable`, whether they are done or not."""
        return len(self._open)

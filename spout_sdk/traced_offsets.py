"""Open inputs that may already have had effects: with these open, a transaction must not be committed.

What is committed of an input that is read again happens twice. An input is read again if the offset to commit does not
lie behind it, so none that does not may have had an effect. Two things are effects: a tuple that was emitted, and an
ack or a fail. Which input a tuple was emitted for cannot be known, as it need not be anchored; but it was for one that
was executed before. So an open input has had no effect, surely, if since it was handed out no tuple was emitted, and no
input behind it was acked or failed. A bolt that collects inputs, and emits and acks for all of them at once, meets
that at any time.
"""

from collections import deque
from collections.abc import Callable

from tuple_tree.offsets import OffsetManager


class TracedOffsets(OffsetManager):
    """The open offsets of a task, and how much it had emitted before each of them.

    Args:
        emitted: returns how many tuples the task has emitted.
    """

    __slots__ = ("_emitted", "_partly_done", "_traces")

    def __init__(self, emitted: Callable[[], int]) -> None:
        super().__init__()
        self._emitted = emitted
        self._partly_done: set[int] = set()
        self._traces: deque[tuple[int, int]] = deque()

    def start(self, offset: int) -> None:
        """Opens an offset; they must come in rising order.

        Raises:
            ValueError: if the offset is not above all that were started.
        """
        super().start(offset)
        emitted = self._emitted()
        traces = self._traces
        # One entry serves all offsets between which nothing was emitted.
        if not traces or traces[-1][1] != emitted:
            traces.append((offset, emitted))

    def partly_done(self, offset: int) -> None:
        """Says that some of the tuples of an open record were acked or failed."""
        self._partly_done.add(offset)

    @property
    def is_repeatable(self) -> bool:
        """Whether all that lies behind the committable offset can be read again without anything happening twice."""
        traces, oldest = self._traces, self.oldest_open
        if oldest is None:
            traces.clear()
            self._partly_done.clear()
            return True
        self._partly_done = {offset for offset in self._partly_done if self.is_open(offset)}
        while len(traces) > 1 and traces[1][0] <= oldest:
            traces.popleft()
        return not self._partly_done and not self.done_ahead and self._emitted() == traces[0][1]

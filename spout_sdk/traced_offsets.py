"""Open inputs that may already have had effects: with these open, a transaction must not be committed.

What is committed of an input that is read again happens twice. An input is read again if the offset to commit does not
lie behind it, so none that does not may have had an effect. Two things are effects: a tuple that was sent, and an ack
or a fail. Which input a tuple was sent for cannot be known, as it need not be anchored; but it was sent for one that
was executed before. So an open input has had no effect, surely, if since it was handed out no tuple was sent, and no
input behind it was acked or failed. A bolt that collects inputs, and emits and acks for all of them at once, meets
that at any time.
"""

from collections import deque
from typing import Protocol

from tuple_tree.offsets import OffsetManager


class SendsCounted(Protocol):
    """What tells how many tuples a task has sent."""

    sent: int


class TracedOffsets(OffsetManager):
    """The open offsets of a task, and how much it had sent before each of them.

    Args:
        sends: of the task.
    """

    __slots__ = ("_sends", "_traces")

    def __init__(self, sends: SendsCounted) -> None:
        super().__init__()
        self._sends = sends
        self._traces: deque[tuple[int, int]] = deque()

    def start(self, offset: int) -> None:
        """Opens an offset; they must come in rising order.

        Raises:
            ValueError: if the offset is not above all that were started.
        """
        super().start(offset)
        sent = self._sends.sent
        traces = self._traces
        # One entry serves all offsets between which nothing was sent.
        if not traces or traces[-1][1] != sent:
            traces.append((offset, sent))

    @property
    def is_repeatable(self) -> bool:
        """Whether all that lies behind the committable offset can be read again without anything happening twice."""
        traces, oldest = self._traces, self.oldest_open
        if oldest is None:
            traces.clear()
            return True
        while len(traces) > 1 and traces[1][0] <= oldest:
            traces.popleft()
        return not self.done_ahead and self._sends.sent == traces[0][1]

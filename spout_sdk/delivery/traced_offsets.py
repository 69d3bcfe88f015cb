"""Open inputs that may already have had effects: with these open, a transaction must not be committed.

What is committed of an input that is read again happens twice. An input is read again if the offset to commit does not
lie behind it, so none that does not may have had an effect. Two things are effects: a tuple that was emitted, and an
ack or a fail. Which input a tuple was emitted for cannot be known, as it need not be anchored; but it was for one that
was executed before. So an open record has had no effect, surely, if none of its tuples is settled, and since it was
handed out no tuple was emitted and no record behind it was done. A bolt that collects inputs, and emits and acks for
all of them at once, meets that at any time. So does one that is a fold over its inputs: what it has done with those
that are open is committed beside the offset.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from spout_sdk.emitting.input_offsets import InputOffsets

if TYPE_CHECKING:
    from spout_sdk.api.tuples import InputPack


class TracedOffsets(InputOffsets):
    """The open records of a task, and how much it had emitted before each of them."""

    def __init__(self, emitted: Callable[[], int]) -> None:
        super().__init__()
        self._emitted = emitted
        self.folds = False  # whether what was done with open records is committed beside the offset
        self._traces: deque[tuple[int, int]] = deque()

    def open(self, pack: "InputPack") -> None:
        super().open(pack)
        emitted = self._emitted()
        traces = self._traces
        # One entry serves all offsets between which nothing was emitted.
        if not traces or traces[-1][1] != emitted:
            traces.append((pack.offset, emitted))

    @property
    def is_repeatable(self) -> bool:
        """Whether all that lies behind the committable offset can be read again without anything happening twice."""
        traces, oldest = self._traces, self.oldest_open
        if oldest is None or self.folds:
            traces.clear()
            return True
        while len(traces) > 1 and traces[1][0] <= oldest:
            traces.popleft()
        return (
            not self.done_ahead
            and self._emitted() == traces[0][1]
            and all(pack.left == pack.size for pack in self._packs.values())
        )

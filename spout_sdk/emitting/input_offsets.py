"""The open records of a task's input, which of its offsets may be committed, and how long a record may stay open."""

import logging
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from spout_sdk.statistics.stats import NO_INPUT
from tuple_tree.offsets import OffsetManager

if TYPE_CHECKING:
    from spout_sdk.api.tuples import InputPack


logger = logging.getLogger("spout_sdk.bolt")

_MARK_SECONDS: Final = 1.0


class InputOffsets(OffsetManager):
    """The offsets of one input partition, each of a record with tuples.

    A record is done when all its tuples were acked or failed, and the ack batches about them were delivered.
    """

    def __init__(self) -> None:
        super().__init__()
        self._packs: dict[int, InputPack] = {}
        self._tuples = 0

    def open(self, pack: "InputPack") -> None:
        """Opens a record; raises `ValueError` if its offset is not above all that were opened."""
        self.start(pack.offset)
        self._packs[pack.offset] = pack
        self._tuples += pack.size

    def settle(self, packs: "Sequence[InputPack]") -> None:
        """Closes records that are done."""
        for pack in packs:
            self._forget(pack.offset)
        self.all_done([pack.offset for pack in packs])

    def settle_to(self, offset: int) -> list[int]:
        """Closes all open records up to an offset, and returns their offsets."""
        stale = self.open_to(offset)
        for each in stale:
            self._forget(each)
            self.done(each)
        return stale

    def _forget(self, offset: int) -> None:
        pack = self._packs.pop(offset, None)
        if pack is not None:
            self._tuples -= pack.size

    @property
    def weight(self) -> int:
        """Tuples of records that are not done, and records that are done behind one that is not."""
        return self.done_ahead + self._tuples


class InputExpiry:
    """Settles inputs of one task that are open for longer than any tree: one forgotten ack would block its commits.

    Once a second it marks the last offset that was started. All inputs up to a mark of `max_age` seconds ago are too
    old: their trees have failed, and were replayed.
    """

    def __init__(self, inputs: InputOffsets, max_age: float, bolt: str, topic: str, task: int, now: float) -> None:
        self._inputs = inputs
        self._max_age = max_age
        self._bolt = bolt
        self._topic = topic
        self._task = task
        self._mark_at = now
        self._marks: deque[tuple[float, int]] = deque()

    def expire(self, now: float) -> int:
        """Settles and logs what is too old, and returns how many inputs that were."""
        if now < self._mark_at:
            return 0
        self._mark_at = now + _MARK_SECONDS
        marks = self._marks
        oldest = self._inputs.oldest_open
        if oldest is not None:
            marks.append((now, self._inputs.last_started))
        while marks and (oldest is None or marks[0][1] < oldest):
            marks.popleft()
        stale: list[int] = []
        while marks and now - marks[0][0] >= self._max_age:
            stale += self._inputs.settle_to(marks.popleft()[1])
        if stale:
            by, at = f"{self._bolt}/{self._task}", f"{self._topic}[{self._task}]"
            text = (
                "%s: %d inputs of %s were neither acked nor failed for %.0f s, the first at offset %d. Their trees "
                "have failed, so they are settled and committed; ack or fail each input. Its roots: "
                "acker trace --tuple %s@%d"
            )
            logger.error(text, by, len(stale), at, self._max_age, stale[0], by, stale[0])
        return len(stale)

    def oldest(self, now: float) -> tuple[float, str]:
        """The input that is open for longest: for how many seconds, to within one, and where it lies."""
        oldest = self._inputs.oldest_open
        if oldest is None:
            return NO_INPUT
        # A copy, because the thread that publishes stats calls this.
        began = next((at for at, last in list(self._marks) if last >= oldest), now)
        return now - began, f"{self._topic}[{self._task}] offset {oldest}"

"""Which offset of a task's input may be committed: the one behind all records whose tuples are settled and reported."""

import logging
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from spout_sdk.statistics.stats import NO_INPUT
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


logger = logging.getLogger("spout_sdk.bolt")

_MARK_SECONDS: Final = 1.0


class InputExpiry:
    """Expires the inputs of one task, which one forgotten ack would otherwise keep uncommitted for ever.

    Once a second it marks the last offset that was started. All inputs up to a mark of `max_age` ago are too old: their
    trees have failed, and were replayed.

    Args:
        inputs: of the task.
        max_age: in seconds, longer than any tree stays open.
        bolt: the bolt's name.
        topic: its inbox.
        task: the task, and the inbox's partition.
        now: on the task's clock.
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
        """Settles what is too old, logs the first of it, and returns how many inputs it settled."""
        if now < self._mark_at:
            return 0
        self._mark_at = now + _MARK_SECONDS
        marks = self._marks
        oldest = self._inputs.oldest_open
        if oldest is not None:
            marks.append((now, self._inputs.last_opened))
        while marks and (oldest is None or marks[0][1] < oldest):
            marks.popleft()
        stale: list[int] = []
        while marks and now - marks[0][0] >= self._max_age:
            stale += self._inputs.settle_to(marks.popleft()[1])
        if stale:
            logger.error(
                "%s/%d: %d inputs of %s[%d] were neither acked nor failed for %.0f s, the first at offset %d. "
                "Their trees have failed, so they are settled and committed; ack or fail each input. Its roots: "
                "acker trace --tuple %s/%d@%d",
                self._bolt,
                self._task,
                len(stale),
                self._topic,
                self._task,
                self._max_age,
                stale[0],
                self._bolt,
                self._task,
                stale[0],
            )
        return len(stale)

    def oldest(self, now: float) -> tuple[float, str]:
        """The input that is open for longest: for how many seconds, to within one, and where it lies."""
        oldest = self._inputs.oldest_open
        if oldest is None:
            return NO_INPUT
        # A copy, because the thread that publishes stats calls this.
        began = next((at for at, last in list(self._marks) if last >= oldest), now)
        return now - began, f"{self._topic}[{self._task}] offset {oldest}"

"""Settles inputs that are open for longer than their tree can be."""

import logging
from collections import deque
from typing import Final

from spout_sdk.emitting.input_offsets import InputOffsets
from spout_sdk.statistics.stats import NO_INPUT

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

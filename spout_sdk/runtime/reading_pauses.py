"""Pauses the reading of partitions whose tasks can take no more tuples."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from kafka_clients.repeated_lines import get_logger
from spout_sdk.bolts.bolt_task import BoltTask
from spout_sdk.bolts.pause import Pause
from spout_sdk.kafka.kafka_reader import KafkaReader

logger = get_logger("spout_sdk.bolt")

NO_PAUSE: Final = (0.0, "")


def _next_try(pause: Pause, now: float) -> str:
    return f"; tries again in {pause.until - now:.0f} s" if pause.until > now else ""


class ReadingPauses:
    """Pauses the reading of partitions, and resumes it.

    Args:
        tasks: the live mapping of the tasks of the process.

    Attributes:
        failing: partitions whose tasks are paused, because their calls raise.
    """

    def __init__(self, component: str, reader: KafkaReader, tasks: Mapping[int, BoltTask]) -> None:
        self._component = component
        self._reader = reader
        self._tasks = tasks
        self._paused: set[int] = set()
        self._full: set[int] = set()
        self._held: set[int] = set()  # until all their records in the backlog are executed
        self.failing: set[int] = set()

    def hold(self, partitions: Iterable[int]) -> None:
        """Pauses partitions until all their records in the backlog are executed."""
        self._held.update(partitions)
        self._set()

    def hold_new(self, partitions: Iterable[int]) -> None:
        """Also pauses newly assigned partitions, if others are held."""
        if self._held:
            self.hold(partitions)

    def resume_executed(self, behind: Collection[int]) -> None:
        """Resumes held partitions whose records are all executed; `behind` are the others."""
        if self._held:
            self._held.intersection_update(behind)
            self._set()

    def covers(self, partitions: Iterable[int]) -> bool:
        """Whether all of these partitions are paused."""
        return self._paused.issuperset(partitions)

    def look(self, behind: Collection[int]) -> bool:
        """Checks which tasks are full, and which are paused; returns whether the pause of a task has ended."""
        full = {partition for partition, task in self._tasks.items() if task.is_full}
        if full != self._full:
            for partition in full - self._full:
                self._warn(partition)
            self._full = full
            self._set()
        failing = {partition for partition, task in self._tasks.items() if task.is_paused}
        is_over = not failing.issuperset(self.failing)
        self.failing = failing
        if not self._held.issuperset(waiting := failing.intersection(behind)):
            self.hold(waiting)
        return is_over

    def longest(self, now: float) -> tuple[float, str]:
        """Seconds and reason of the longest pause of a task whose calls raise; callable from other threads."""
        pauses = [(task.pause, partition) for partition, task in list(self._tasks.items())]
        shown = (
            (now - each.since, f"task {partition}: {each.why}{_next_try(each, now)}")
            for each, partition in pauses
            if each is not None
        )
        return max(shown, default=NO_PAUSE)

    def forget(self, partitions: Iterable[int]) -> None:
        """Forgets partitions that are no longer assigned to the process."""
        for paused in (self._full, self._held, self._paused, self.failing):
            paused.difference_update(partitions)

    def begin_again(self) -> None:
        """Ends all holds; call it before reading continues from the committed offsets."""
        self._held.clear()

    def _set(self) -> None:
        if (paused := self._full | self._held) != self._paused:
            self._reader.pause(paused - self._paused)
            self._reader.resume((self._paused - paused) & self._tasks.keys())
            self._paused = paused

    def _warn(self, partition: int) -> None:
        logger.warning(
            "%s/%d: reading is paused, because too many inputs wait behind %d that are neither acked nor failed; "
            "ack or fail each input",
            self._component,
            partition,
            self._tasks[partition].open_inputs,
        )

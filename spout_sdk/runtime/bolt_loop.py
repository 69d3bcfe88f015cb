"""The loop of a bolt process: poll, execute, send, commit."""

import logging
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, TypeVar

from confluent_kafka import Message

from spout_sdk.api.tuples import Tuple
from spout_sdk.bolts.arrow_collector import ArrowInput
from spout_sdk.bolts.bolt_task import BoltTask
from spout_sdk.delivery.delivery_guarantees import LARGEST_BATCH, DeliveryGuarantee
from spout_sdk.errors import RolledBackError
from spout_sdk.runtime.execute_watch import LONGEST_EXECUTE_MS, MAX_POLL
from spout_sdk.runtime.task_loop import ComponentProcess, TaskLoop
from spout_sdk.statistics.stats import NO_INPUT
from tuple_tree.names import tuples_topic

logger = logging.getLogger("spout_sdk.bolt")

_WAIT_SECONDS: Final = 0.02
_TICK_SECONDS: Final = 0.0025
_MOST_RECORDS: Final = 10_000  # of a read
_READ_SECONDS: Final = 0.5  # a read that takes longer than this to execute is made smaller
# A batch that takes longer than this is made smaller, and between tuples the group is polled as often as this.
_SLOW_SECONDS: Final = 1.0
_FINISH_SECONDS: Final = 5.0  # how long a stop waits for the tuples of the records that were begun


B = TypeVar("B", list[Tuple], ArrowInput)


class BoltLoop(TaskLoop[BoltTask]):
    """Runs the tasks of a bolt that the group gives to this process."""

    def __init__(self, process: ComponentProcess, guarantee: DeliveryGuarantee) -> None:
        super().__init__(process, guarantee.in_flight)
        # Beyond it the client leaves the group by itself; what watches the calls of `execute` ends the process there.
        self._kafka = {MAX_POLL: LONGEST_EXECUTE_MS, **self._kafka}
        self._guarantee = guarantee
        self._paused: set[int] = set()
        self._limit = 1
        # Grows with each full batch that was fast: the first one of a slow bolt must not exceed max.poll.interval.ms.
        self._batch = 1
        self._unbegun: deque[Message] = deque()
        # The tuples of the record, or the records, that are being executed, and their task.
        self._rest: Any = None
        self._begun: BoltTask | None = None
        self._polled_at = 0.0
        self._is_held = False  # whether reading is paused until what was read is executed
        self._stop_at = float("inf")
        self._takes_batches = False
        self._executed = 0

    @property
    def pending(self) -> int:
        return sum(task.open_inputs for task in self.tasks.values())

    @property
    def oldest_input(self) -> tuple[float, str]:
        now = self._clock()
        return max((task.oldest_input(now) for task in self.tasks.values()), default=NO_INPUT)

    @property
    def has_work(self) -> bool:
        return self._reader.unread

    @property
    def _handled(self) -> int:
        return self._executed

    def start(self) -> None:
        inbox = tuples_topic(self._topology.name, self._component)
        self._reader = self._read(inbox, from_end=False)
        self._guarantee.attach(self._reader, self.tasks)

    def join(self) -> None:
        self._reader.read(0)

    def close(self) -> None:
        self._cleaned_up(tuple(self.tasks))
        self._guarantee.close()
        self._reader.close()

    def turn(self) -> bool:
        try:
            return self._turn()
        except RolledBackError as undone:
            self._begin_again(str(undone))
            return True

    def flush(self) -> None:
        super().flush()
        self._guarantee.on_idle(self._clock())

    def end(self) -> None:
        try:
            super().end()
        except RolledBackError as undone:
            logger.warning("%s stops, and what it did since its last commit is done again: %s", self._component, undone)

    def _turn(self) -> bool:
        if self._is_held:
            self._is_held = False
            self._reader.resume(self.tasks.keys() - self._paused)
        records = self._reader.read(self._limit)
        if not records:
            seconds = self._flush_timing.wait_seconds(self._executed)
            if not seconds:
                self.flush()
            records = self._reader.wait(seconds or _WAIT_SECONDS)
            if not records:
                return False
        read_at = self._polled_at = self._clock()
        self._guarantee.on_polled(records)
        tuples = self._execute(records)
        self._executed += tuples
        fitting = self._guarantee.tuples_a_read * len(records) // (tuples or 1)
        if (seconds := self._clock() - read_at) > _READ_SECONDS:
            fitting = min(fitting, int(len(records) * _READ_SECONDS / seconds))
        self._limit = max(1, min(_MOST_RECORDS, 2 * self._limit, fitting))
        return True

    def _execute(self, records: Sequence[Message]) -> int:
        """Executes the tuples of records, and returns how many there were."""
        read = 0
        unbegun = self._unbegun
        unbegun.extend(sorted(records, key=_partition) if self._takes_batches else records)
        while unbegun:
            partition: int = unbegun[0].partition()  # type: ignore[assignment]
            task = self.tasks.get(partition)
            if task is None:
                unbegun.popleft()  # polled before it was revoked
            elif not self._takes_batches:
                tuples = task.read(unbegun.popleft())
                read += len(tuples)
                self._begun, self._rest = task, (rest := iter(tuples))
                while not task.execute(rest, self._tick_at):
                    self._between(self._clock())
                    if not self._may_execute(task, partition):
                        break
            elif task.takes_columns:
                rows = task.read_columns(unbegun.popleft())
                read += len(rows or ())
                while rows and self._may_execute(task, partition):
                    rows = self._execute_batch(task, rows)
            else:
                read += self._execute_batches(task, partition)
            self._begun = None
            if self._stopping():
                self._guarantee.on_unexecuted(unbegun)
                unbegun.clear()
        return read

    def _execute_batches(self, task: BoltTask, partition: int) -> int:
        """Executes the tuples of the next records, all of a task, in batches, and returns how many there were."""
        read, tuples = 0, list[Tuple]()
        unbegun = self._unbegun
        while (
            unbegun
            and _partition(unbegun[0]) == partition
            and self.tasks.get(partition) is task
            and not self._stopping()
        ):
            more = task.read(unbegun.popleft())
            read += len(more)
            tuples += more
            while len(tuples) >= self._batch and self._may_execute(task, partition):
                tuples = self._execute_batch(task, tuples)
        while tuples and self._may_execute(task, partition):
            tuples = self._execute_batch(task, tuples)
        return read

    def _may_execute(self, task: BoltTask, partition: int) -> bool:
        return self.tasks.get(partition) is task and not self._is_overdue(partition)

    def _execute_batch(self, task: BoltTask, tuples: B) -> B:
        """Executes a batch of tuples, and returns those that are left."""
        now = self._execute_one(task, tuples)
        self._between(now)
        return self._rest  # type: ignore[no-any-return]

    def _execute_one(self, task: BoltTask, tuples: B) -> float:
        batch = tuples[: self._batch]
        self._begun, self._rest = task, tuples[len(batch) :]
        began = self._clock()
        task.execute_batch(batch)
        now = self._clock()
        if now - began > _SLOW_SECONDS:
            self._batch = max(1, self._batch // 2)
        elif now - began < _SLOW_SECONDS / 4 and len(batch) == self._batch:
            # How long a full batch takes is not known from one that was not full.
            self._batch = min(LARGEST_BATCH, 2 * self._batch)
        return now

    def _between(self, now: float) -> None:
        """What is to be done between tuples: a tick, and a poll of the group if the last one was long ago.

        Then reading is paused until all that was read is executed. Not longer, and only once: each time the client
        drops the records that it has fetched ahead, and fetches them again.
        """
        self._tick(now)
        if now - self._polled_at < _SLOW_SECONDS:
            return
        self._polled_at = now
        if not self._is_held:
            self._is_held = True
            self._reader.pause(self.tasks.keys() - self._paused)
        if records := self._reader.read(1):
            # None but of partitions that were assigned in this call, before they were paused.
            self._guarantee.on_polled(records)
            self._unbegun.extend(records)

    def _finish(self, partitions: Sequence[int]) -> None:
        """Executes the rest of what was begun, for `_FINISH_SECONDS`, if its task is revoked and it is committed."""
        task = self._begun
        begun = [partition for partition in partitions if self.tasks[partition] is task]
        if task is None or not begun or not self._guarantee.commits_first:
            return
        deadline = min(self._stop_at, self._clock() + _FINISH_SECONDS)
        if self._takes_batches:
            while self._rest and self._clock() < deadline:
                self._execute_one(task, self._rest)
            left = len(self._rest)
        else:
            left = 0 if task.execute(self._rest, deadline) else sum(1 for _ in self._rest)
        if left:
            logger.warning(
                "%s/%d is revoked, and did not execute the record that it had begun within %.0f s: %d tuples, whose "
                "offset is committed, are lost",
                *(self._component, begun[0], _FINISH_SECONDS, left),
            )

    def _is_overdue(self, partition: int) -> bool:
        """Whether it was to stop so long ago that it does so even in the middle of a record."""
        if not self._stopping():
            return False
        now = self._clock()
        self._stop_at = min(self._stop_at, now + _FINISH_SECONDS)
        if now < self._stop_at:
            return False
        logger.warning("%s/%d stops in the middle of a record", self._component, partition)
        return True

    def _tick(self, now: float) -> None:
        self._tick_at = now + _TICK_SECONDS
        for task in self.tasks.values():
            task.tick(now)
        self._pause_full()
        self._guarantee.on_tick(now)
        self._on_tick(now)

    def _pause_full(self) -> None:
        full = {partition for partition, task in self.tasks.items() if task.is_full}
        if full == self._paused:
            return
        for partition in full - self._paused:
            logger.warning(
                "%s/%d: reading is paused, because too many inputs wait behind %d that are neither acked nor failed; "
                "ack or fail each input",
                self._component,
                partition,
                self.tasks[partition].open_inputs,
            )
        self._reader.pause(full - self._paused)
        if not self._is_held:
            self._reader.resume((self._paused - full) & self.tasks.keys())
        self._paused = full

    def _assigned(self, partitions: Sequence[int]) -> None:
        if not partitions:
            return
        opened = {
            partition: BoltTask(self._topology, self._component, partition, self._guarantee.environment)
            for partition in partitions
        }
        self._guarantee.on_assigned(opened)
        for partition, task in opened.items():
            task.prepare()
            self.tasks[partition] = task
            self._takes_batches = task.takes_batches or task.takes_columns
        if self._is_held:
            self._reader.pause(partitions)
        logger.info("%s has tasks %s", self._component, sorted(self.tasks))

    def _released(self, partitions: Sequence[int]) -> None:
        held = [partition for partition in partitions if partition in self.tasks]
        if not held:
            return
        unbegun = [record for record in self._unbegun if record.partition() in held]
        self._drop_read(held)
        self._guarantee.on_unexecuted(unbegun)
        try:
            self._finish(held)
        finally:
            for partition in held:
                self.tasks[partition].cleanup()
            try:
                self._guarantee.on_revoked(held)
            finally:
                for partition in held:
                    del self.tasks[partition]
        logger.info("%s released tasks %s", self._component, held)

    def _lost(self, partitions: Sequence[int]) -> None:
        self._cleaned_up(partitions)
        self._guarantee.on_lost(partitions)

    def _begin_again(self, why: str) -> None:
        """Replaces all tasks by new ones, which continue from what is committed."""
        partitions = tuple(self.tasks)
        logger.warning("%s begins again from the committed offsets of tasks %s: %s", self._component, partitions, why)
        # First, as what they still ack or emit must be undone too.
        self._cleaned_up(partitions)
        self._guarantee.on_rolled_back(why)
        self._is_held = False
        self._reader.rewind(partitions)
        self._assigned(partitions)

    def _cleaned_up(self, partitions: Sequence[int]) -> None:
        self._drop_read(partitions)
        for partition in partitions:
            task = self.tasks.pop(partition, None)
            if task is not None:
                task.cleanup()

    def _drop_read(self, partitions: Sequence[int]) -> None:
        """Forgets records of tasks that end: their next owner reads these again."""
        unbegun = [record for record in self._unbegun if record.partition() not in partitions]
        self._unbegun.clear()
        self._unbegun.extend(unbegun)


def _partition(record: Message) -> int:
    return record.partition()  # type: ignore[return-value]

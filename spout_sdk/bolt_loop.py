"""The loop of a bolt process: poll, execute, send, commit."""

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

from confluent_kafka import Message

from spout_sdk.bolt_task import BoltTask
from spout_sdk.commits import LARGEST_READ, Commits
from spout_sdk.errors import RolledBackError
from spout_sdk.kafka_reader import KafkaReader
from spout_sdk.kafka_settings import KafkaSettings
from spout_sdk.records import Clock
from spout_sdk.stats import NO_INPUT
from spout_sdk.topology import Topology
from tuple_tree.names import component_group, tuples_topic

logger = logging.getLogger("spout_sdk.bolt")

_WAIT_SECONDS: Final = 0.02
_TICK_SECONDS: Final = 0.0025
# A read that takes longer than this is made smaller, so that a slow bolt still polls often enough for its group.
_SLOW_READ_SECONDS: Final = 1.0


class BoltLoop:
    """Runs the tasks of a bolt that the group gives to this process.

    Args:
        topology: whose.
        component: the bolt.
        kafka: librdkafka properties.
        commits: the world around the tasks, and when their offsets are committed.
        clock: monotonic seconds.
        on_tick: called with the time, every few milliseconds.
        stopping: says whether to end.
    """

    def __init__(
        self,
        topology: Topology,
        component: str,
        kafka: KafkaSettings,
        commits: Commits,
        clock: Clock,
        on_tick: Callable[[float], None],
        stopping: Callable[[], bool],
    ) -> None:
        self._topology = topology
        self._component = component
        self._kafka = kafka
        self._commits = commits
        self._clock = clock
        self._on_tick = on_tick
        self._tasks: dict[int, BoltTask] = {}
        self._paused: set[int] = set()
        self._tick_at = 0.0
        # Grows with each full read that was fast: the first read of a slow bolt must not exceed max.poll.interval.ms.
        self._limit = 1
        self._stopping = stopping
        self._takes_batches = False

    @property
    def tasks(self) -> Sequence[int]:
        """The tasks that this process has now."""
        return tuple(self._tasks)

    @property
    def pending(self) -> int:
        """Inputs that are neither acked nor failed."""
        return sum(task.open_inputs for task in self._tasks.values())

    @property
    def oldest_input(self) -> tuple[float, str]:
        """The input that is open for longest, of all tasks: for how many seconds, and where it lies."""
        now = self._clock()
        return max((task.oldest_input(now) for task in self._tasks.values()), default=NO_INPUT)

    def run(self) -> None:
        """Works until it is stopped.

        Raises:
            SpoutSdkError: if it cannot go on. What was not committed is read again by whoever comes next.
        """
        name = self._topology.name
        self._reader = KafkaReader(
            self._kafka,
            tuples_topic(name, self._component),
            component_group(name, self._component),
            from_end=False,
            on_assigned=self._assigned,
            on_revoked=self._released,
            on_lost=self._lost,
            on_uncommitted=self._commits.uncommitted,
        )
        self._commits.attach(self._reader, self._tasks)
        try:
            while not self._stopping():
                try:
                    self._turn()
                except RolledBackError as undone:
                    self._begin_again(str(undone))
            self._end()
        finally:
            self._cleaned_up(self.tasks)
            self._commits.close()
            self._reader.close()

    def _turn(self) -> None:
        """Reads once, and executes what was read."""
        clock = self._clock
        records = self._reader.read(self._limit)
        if not records:
            # The input has run dry: what is buffered has nobody to wait for.
            for task in self._tasks.values():
                task.flush()
            self._tick(clock())
            self._commits.dry(clock())
            records = self._reader.wait(_WAIT_SECONDS)
            if not records:
                return
        began = clock()
        self._commits.before(records)
        if self._takes_batches:
            self._execute_batches(records)
        else:
            self._execute(records)
        seconds = clock() - began
        if seconds > _SLOW_READ_SECONDS:
            self._limit = max(1, self._limit // 2)
        elif seconds < _SLOW_READ_SECONDS / 4 and len(records) >= self._limit:
            # A read that was not full says nothing of how long a full one takes.
            self._limit = min(self._commits.largest_read, self._limit * 2)

    def _execute(self, records: Sequence[Message]) -> None:
        clock = self._clock
        task: BoltTask | None = None
        last: int | None = -1
        rest = iter(records)
        for record in rest:
            partition = record.partition()
            if partition != last:
                last, task = partition, self._tasks.get(partition)  # type: ignore[arg-type]
            if task is None:
                continue  # polled before it was revoked
            task.execute(record)
            now = clock()
            if now >= self._tick_at:
                self._tick(now)
                if self._stopping():
                    self._commits.unexecuted(list(rest))
                    break

    def _execute_batches(self, records: Sequence[Message]) -> None:
        """One call of the bolt for all records of a task, or several: a read may be larger than a bolt is promised."""
        together: defaultdict[int | None, list[Message]] = defaultdict(list)
        for record in records:
            together[record.partition()].append(record)
        batches = [
            (self._tasks[partition], of_task[first : first + LARGEST_READ])
            for partition, of_task in together.items()
            if partition in self._tasks  # else polled before it was revoked
            for first in range(0, len(of_task), LARGEST_READ)
        ]
        for done, (task, batch) in enumerate(batches, 1):
            task.execute_batch(batch)
            self._tick(self._clock())
            if self._stopping():
                self._commits.unexecuted([record for _, later in batches[done:] for record in later])
                break

    def _tick(self, now: float) -> None:
        self._tick_at = now + _TICK_SECONDS
        for task in self._tasks.values():
            task.tick(now)
        self._pause_full()
        self._commits.tick(now)
        self._on_tick(now)

    def _pause_full(self) -> None:
        """Stops reading for tasks with too many open inputs, and goes on once they have fewer."""
        full = {partition for partition, task in self._tasks.items() if task.is_full}
        if full == self._paused:
            return
        for partition in full - self._paused:
            logger.warning(
                "%s/%d: reading is paused, because too many inputs wait behind %d that are neither acked nor failed; "
                "ack or fail each input",
                self._component,
                partition,
                self._tasks[partition].open_inputs,
            )
        self._reader.pause(full - self._paused)
        self._reader.resume((self._paused - full) & self._tasks.keys())
        self._paused = full

    def _assigned(self, partitions: Sequence[int]) -> None:
        opened = {}
        for partition in partitions:
            environment = self._commits.environment(partition)
            opened[partition] = BoltTask(self._topology, self._component, partition, environment)
        if opened:
            self._commits.opened(opened)
        for partition, task in opened.items():
            task.prepare()
            self._tasks[partition] = task
            self._takes_batches = task.takes_batches
        if opened:
            logger.info("%s has tasks %s", self._component, sorted(self._tasks))

    def _released(self, partitions: Sequence[int]) -> None:
        """Ends tasks in order: their last acks out and delivered, and committed."""
        held = [partition for partition in partitions if partition in self._tasks]
        if not held:
            return
        for partition in held:
            self._tasks[partition].cleanup()
        try:
            self._commits.release(held)
        finally:
            for partition in held:
                del self._tasks[partition]
        logger.info("%s gave up tasks %s", self._component, held)

    def _lost(self, partitions: Sequence[int]) -> None:
        """Ends tasks without a commit: they are somebody else's already."""
        self._cleaned_up(partitions)
        self._commits.dropped(partitions)

    def _begin_again(self, why: str) -> None:
        """Replaces all tasks by new ones, which read on from what is committed."""
        partitions = self.tasks
        logger.warning("%s begins again from the committed offsets of tasks %s: %s", self._component, partitions, why)
        # First, as what they still ack or emit must be undone too.
        self._cleaned_up(partitions)
        self._commits.begin_again(why)
        self._reader.rewind(partitions)
        self._assigned(partitions)

    def _end(self) -> None:
        try:
            self._released(self.tasks)
        except RolledBackError as undone:
            logger.warning("%s stops, and what it did since its last commit is done again: %s", self._component, undone)

    def _cleaned_up(self, partitions: Sequence[int]) -> None:
        for partition in partitions:
            task = self._tasks.pop(partition, None)
            if task is not None:
                task.cleanup()

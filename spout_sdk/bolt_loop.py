"""The loop of a bolt process: poll, execute, send, commit."""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

from spout_sdk.bolt_task import BoltTask
from spout_sdk.kafka_reader import KafkaReader
from spout_sdk.kafka_settings import KafkaSettings
from spout_sdk.kafka_sink import KafkaSink
from spout_sdk.records import Record, TaskEnvironment
from spout_sdk.sessions import open_sessions
from spout_sdk.topology import Topology
from tuple_tree.names import component_group, tuples_topic

logger = logging.getLogger("spout_sdk.bolt")

FLUSH_SECONDS: Final = 10.0
"""How long a stop or a revoke waits for deliveries."""

_WAIT_SECONDS: Final = 0.02
_TICK_SECONDS: Final = 0.0025
_COMMIT_SECONDS: Final = 1.0
_LARGEST_READ: Final = 500
# A read that takes longer than this is made smaller, so that a slow bolt still polls often enough for its group.
_SLOW_READ_SECONDS: Final = 1.0


class BoltLoop:
    """Runs the tasks of a bolt that the group gives to this process.

    Args:
        topology: whose.
        component: the bolt.
        kafka: librdkafka properties.
        environment: the world around the tasks.
        sink: the environment's sink.
        on_tick: called with the time, every few milliseconds.
        stopping: says whether to end.
    """

    def __init__(
        self,
        topology: Topology,
        component: str,
        kafka: KafkaSettings,
        environment: TaskEnvironment,
        sink: KafkaSink,
        on_tick: Callable[[float], None],
        stopping: Callable[[], bool],
    ) -> None:
        self._topology = topology
        self._component = component
        self._kafka = kafka
        self._environment = environment
        self._clock = environment.clock
        self._sink = sink
        self._on_tick = on_tick
        self._tasks: dict[int, BoltTask] = {}
        self._committed: dict[int, int] = {}
        self._commit_at = 0.0
        self._tick_at = 0.0
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
            on_lost=self._dropped,
            on_uncommitted=self._committed.clear,
        )
        try:
            self._work()
            self._released(self.tasks)
        finally:
            self._dropped(self.tasks)
            self._reader.close()

    def _work(self) -> None:
        limit = _LARGEST_READ
        clock = self._clock
        while not self._stopping():
            records = self._reader.read(limit)
            if not records:
                # The input has run dry: what is buffered has nobody to wait for.
                for task in self._tasks.values():
                    task.flush()
                self._tick(clock())
                records = self._reader.wait(_WAIT_SECONDS)
            began = clock()
            if self._takes_batches:
                self._execute_batches(records)
            else:
                self._execute(records)
            seconds = clock() - began
            if seconds > _SLOW_READ_SECONDS:
                limit = max(1, limit // 2)
            elif seconds < _SLOW_READ_SECONDS / 4:
                limit = min(_LARGEST_READ, limit * 2)

    def _execute(self, records: Sequence[Record]) -> None:
        clock = self._clock
        for record in records:
            task = self._tasks.get(record.partition())  # type: ignore[arg-type]
            if task is None:
                continue  # polled before it was revoked
            task.execute(record)
            now = clock()
            if now >= self._tick_at:
                self._tick(now)
                if self._stopping():
                    break

    def _execute_batches(self, records: Sequence[Record]) -> None:
        """One call of the bolt for all records of a task."""
        together: defaultdict[int | None, list[Record]] = defaultdict(list)
        for record in records:
            together[record.partition()].append(record)
        for partition, batch in together.items():
            task = self._tasks.get(partition)  # type: ignore[arg-type]
            if task is not None:
                task.execute_batch(batch)
                self._tick(self._clock())

    def _tick(self, now: float) -> None:
        self._tick_at = now + _TICK_SECONDS
        self._sink.poll()
        for task in self._tasks.values():
            task.tick(now)
        if now >= self._commit_at:
            self._commit_at = now + _COMMIT_SECONDS
            self._reader.commit(self._ahead(self.tasks))
        self._on_tick(now)

    def _ahead(self, partitions: Sequence[int]) -> dict[int, int]:
        """What may be committed, and is not yet."""
        ahead = {}
        for partition in partitions:
            offset = self._tasks[partition].committable
            if offset is not None and offset != self._committed.get(partition):
                ahead[partition] = self._committed[partition] = offset
        return ahead

    def _assigned(self, partitions: Sequence[int]) -> None:
        opened = {}
        for partition in partitions:
            opened[partition] = BoltTask(self._topology, self._component, partition, self._environment)
        if opened:
            open_sessions(self._sink, list(opened.values()))
        for partition, task in opened.items():
            task.prepare()
            self._tasks[partition] = task
            self._takes_batches = task.takes_batches
        if opened:
            logger.info("%s has tasks %s", self._component, sorted(self._tasks))

    def _released(self, partitions: Sequence[int]) -> None:
        """Ends tasks in order: their last acks out and delivered, then the commit."""
        held = [partition for partition in partitions if partition in self._tasks]
        if not held:
            return
        deadline = time.monotonic() + FLUSH_SECONDS
        for partition in held:
            self._tasks[partition].cleanup()
        for _ in range(2):  # a tuple that is not delivered fails its trees, and that has to be sent as well
            for partition in held:
                self._tasks[partition].flush()
            left = self._sink.flush(max(0.0, deadline - time.monotonic()))
        if left:
            logger.warning("%s: %d records were not delivered in time; inputs are read again", self._component, left)
        for partition in held:
            # A commit in the background may still fail, and nobody would make up for it: this one says all.
            self._committed.pop(partition, None)
        self._reader.commit_now(self._ahead(held), max(1.0, deadline - time.monotonic()))
        for partition in held:
            del self._tasks[partition]
            self._committed.pop(partition, None)
        logger.info("%s gave up tasks %s", self._component, held)

    def _dropped(self, partitions: Sequence[int]) -> None:
        """Ends tasks without a commit: they are somebody else's already, or this process cannot go on."""
        for partition in partitions:
            task = self._tasks.pop(partition, None)
            self._committed.pop(partition, None)
            if task is not None:
                task.cleanup()

"""The loop of a bolt process: poll, execute, send, commit."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any, Final

from confluent_kafka import Message

from kafka_clients.loop_runner import NOT_STALLED, Stalled
from kafka_clients.repeated_lines import get_logger
from spout_sdk.api.topology import STOP_TIMEOUT
from spout_sdk.bolts.bolt_task import BoltTask
from spout_sdk.delivery.delivery_guarantees import first_offsets
from spout_sdk.delivery.exactly_once import GUARANTEES
from spout_sdk.errors import ComponentError
from spout_sdk.runtime.backlog import Backlog
from spout_sdk.runtime.execute_watch import LONGEST_EXECUTE_MS, MAX_POLL
from spout_sdk.runtime.read_size import ReadSize
from spout_sdk.runtime.reading_pauses import ReadingPauses
from spout_sdk.runtime.task_loop import ComponentProcess, ProcessSink, TaskLoop
from spout_sdk.state.process_states import process_states
from spout_sdk.statistics.stats import NO_INPUT, Stats, worst_of
from tuple_tree.names import tuples_topic
from tuple_tree.timing import Stall

logger = get_logger("spout_sdk.bolt")

_WAIT_SECONDS: Final = 0.02
_TICK_SECONDS: Final = 0.0025
_SLOW_SECONDS: Final = 1.0  # between tuples, the consumer is polled after this time


class BoltLoop(TaskLoop[BoltTask]):
    """Runs the tasks of a bolt that the group gives to this process."""

    def __init__(self, process: ComponentProcess, sink: ProcessSink) -> None:
        inbox = tuples_topic(process.topology.name, process.component)
        # After that time without a poll the client leaves the group; `ExecuteWatch` ends the process then.
        super().__init__(process, sink, inbox, {MAX_POLL: LONGEST_EXECUTE_MS, **process.kafka}, from_end=False)
        guarantee = GUARANTEES[process.topology.manifest.guarantee_of(process.component)]
        self._states = process_states(process)
        parts = (sink, self._reader, self.tasks, process.counters, self._states, process.clock)
        self._guarantee = guarantee(self._component, *parts)
        self._work, self._undone = Stall(), "records wait, and none was executed"
        self._pauses = ReadingPauses(self._component, self._reader, self.tasks)
        self._read_size = ReadSize(self._guarantee.tuples_a_read)
        self._backlog = Backlog()
        self._polled_at = 0.0
        self._executed = 0
        self._has_retried = False  # whether this turn executed a tuple again, or ended a pause
        self._stop_at = float("inf")

    @property
    def pending(self) -> int:
        return sum(task.open_inputs for task in self.tasks.values())

    def stats(self, stalled: Stalled = NOT_STALLED) -> Stats:
        now = self._clock()
        # Another thread may call this while tasks are assigned and revoked: so it copies the tasks.
        seconds, oldest = max((task.oldest_input(now) for task in list(self.tasks.values())), default=NO_INPUT)
        begun = {partition: task.first.waiting for partition, task in list(self.tasks.items())}
        waiting = self._backlog.waiting(begun, self._environment.counters, self._reader.unread_of)
        paused_seconds, paused_by = self._pauses.longest(now)
        return replace(
            super().stats(stalled),
            unread=self._reader.unread,
            task_waiting=waiting,
            oldest_input=oldest,
            oldest_input_seconds=seconds,
            retrying=sum(task.waiting_retries for task in list(self.tasks.values())),
            most_failed=worst_of([task.most_failed(now) for task in list(self.tasks.values())]),
            paused_seconds=paused_seconds,
            paused_by=paused_by,
            state=self._states.stats,
        )

    @property
    def has_work(self) -> bool:
        # Statistics show a restore and a paused task by other figures, not as a stalled process.
        pauses = any(task.is_expected or task.pause is not None for task in self.tasks.values())
        is_expected = pauses or self._states.is_restoring
        return not is_expected and (self._reader.unread > 0 or bool(self._waiting))

    def close(self) -> None:
        self._cleaned_up(tuple(self.tasks))
        self._guarantee.close()
        self._reader.close()

    def _flush(self) -> None:
        self._tick(self._clock())
        self._flush_timing.flushed(self._executed)
        self._guarantee.flush(self._clock())
        self._sink.send_lingering()

    def _turn(self) -> bool:
        self._has_retried = False
        behind = self._waiting
        is_behind = any(each not in self._pauses.failing and not self._is_held(each) for each in behind)
        self._pauses.resume_executed(behind)
        records: list[Message] = []
        if self._may_read():
            records = self._reader.read(self._read_size.records)
            self._polled_at = self._clock()
        if not (records or is_behind):
            seconds = self._flush_timing.wait_seconds(self._executed)
            if not seconds:
                self._flush()
            records = self._reader.read(1, seconds or _WAIT_SECONDS)
            if not records:
                return self._has_retried
        if records:
            self._polled_at = self._clock()
            self._read_size.read(len(records), self._polled_at)
            self._backlog.add(records)
            self._guarantee.admit(records)
        tuples = self._execute()
        self._executed += tuples
        self._read_size.executed(tuples)
        if (now := self._clock()) >= self._tick_at:  # nothing was executed: a task is busy, or no record was valid
            self._tick(now)
        if not self._waiting:
            wanted = max((task.first.wants for task in self.tasks.values()), default=1)
            self._read_size.fit(self._clock(), wanted if wanted > 1 else 0)
        elif not tuples:
            busy = next((task for task in self.tasks.values() if task.is_busy), None)
            if busy is not None:
                busy.wait(_TICK_SECONDS)
        return True

    @property
    def _waiting(self) -> list[int]:
        """The partitions with something to execute, begun records first."""
        begun = (partition for partition, task in list(self.tasks.items()) if task.first.waiting)
        return [*dict.fromkeys((*begun, *self._backlog.partitions))]

    def _may_read(self) -> bool:
        """Whether to read more; pauses the partitions whose tasks have not executed all of their records.

        When a partition is paused, the client drops the records that it has fetched ahead. So reading of the other
        partitions waits for a second first.
        """
        behind = self._waiting
        if self._pauses.covers(behind):
            return True
        if self._clock() - self._polled_at < _SLOW_SECONDS:
            return False
        self._pauses.hold(behind)
        return True

    def _execute(self) -> int:
        """Executes the tuples in the backlog until no task can take more; returns how many tuples were read."""
        read = 0
        while (partition := self._next_partition()) is not None:
            task = self.tasks.get(partition)
            if task is None:
                self._backlog.drop([partition])  # polled before it was revoked
            else:
                read += self._execute_task(task, partition)
            if self._stopping():
                self._guarantee.set_back(self._backlog.take())
                break
        return read

    def _next_partition(self) -> int | None:
        """A partition with tuples whose task can take some now."""
        busy = {at for at, task in self.tasks.items() if task.is_busy or self._is_held(at)}
        return next((each for each in self._waiting if each not in busy), None)

    def _execute_task(self, task: BoltTask, partition: int) -> int:
        """Executes records of a partition until its task can take no more; returns how many tuples were read."""
        read = 0
        while task.first.waiting or self._may_read_next(task, partition):
            while task.first.waiting < task.first.wants and self._may_read_next(task, partition):
                read += task.read(self._backlog.next_record(partition))
            while not task.run(self._tick_at):
                self._between(self._clock())
                if not self._may_execute(task, partition):
                    return read
            if (now := self._clock()) >= self._tick_at:
                self._between(now)
            if not self._may_execute(task, partition):
                break
        return read

    def _is_held(self, partition: int) -> bool:
        """Whether the next record of a partition must not be begun."""
        task = self.tasks.get(partition)
        return task is not None and task.is_held and not task.first.waiting

    def _may_read_next(self, task: BoltTask, partition: int) -> bool:
        is_ours = self.tasks.get(partition) is task and not task.is_held
        return is_ours and self._backlog.has_records(partition) and not self._stopping()

    def _may_execute(self, task: BoltTask, partition: int) -> bool:
        return self.tasks.get(partition) is task and not task.is_busy and not self._is_overdue(partition)

    def _between(self, now: float) -> None:
        """Does the work between tuples: a tick, and a poll if the last one is more than a second ago.

        That poll pauses reading until all records in the backlog are executed. Partitions are paused once and not
        longer, because each pause makes the client drop the records that it has fetched ahead, and fetch them again.
        """
        self._tick(now)
        if now - self._polled_at < _SLOW_SECONDS:
            return
        self._polled_at = now
        self._pauses.hold(self.tasks)
        if records := self._reader.read(1):
            # Records of partitions that were assigned in this call: the others are paused.
            self._backlog.add(records)
            self._guarantee.admit(records)

    def _finish(self, partitions: Sequence[int]) -> None:
        """Waits for running inputs, and executes the rest of begun records, until the stop deadline.

        If the guarantee commits before it executes, it executes the rest for all tasks, otherwise only for tasks with
        running inputs.
        """
        deadline = min(self._stop_at, self._clock() + self._stop_timeout)
        for partition in partitions:
            if self._guarantee.commits_first:
                self.tasks[partition].finish(deadline)
            else:
                self.tasks[partition].forget_waiting()
        running = [partition for partition in partitions if self.tasks[partition].running_inputs]
        may_execute = partitions if self._guarantee.commits_first else running
        begun = [partition for partition in may_execute if self.tasks[partition].first.waiting]
        while (running or begun) and (now := self._clock()) < deadline:
            for partition in begun:
                self.tasks[partition].run(deadline)
            begun = [partition for partition in begun if self.tasks[partition].first.waiting]
            self._tick(now)  # sends and commits the inputs that end meanwhile, and publishes statistics
            running = [partition for partition in partitions if self.tasks[partition].running_inputs]
            if running:
                self.tasks[running[0]].wait(_TICK_SECONDS)

    def _is_overdue(self, partition: int) -> bool:
        """Whether the stop deadline has passed, so that the loop stops even in the middle of a record."""
        if not self._stopping():
            return False
        now = self._clock()
        self._stop_at = min(self._stop_at, now + self._stop_timeout)
        if now < self._stop_at:
            return False
        logger.warning("%s/%d stops in the middle of a record", self._component, partition)
        return True

    @property
    def _stop_timeout(self) -> float:
        """Seconds that a stop waits for the tuples of begun records."""
        return max((task.stop_timeout for task in self.tasks.values()), default=STOP_TIMEOUT)

    def _tick(self, now: float) -> None:
        self._tick_at = now + _TICK_SECONDS
        backlog = self._waiting
        for partition, task in self.tasks.items():
            task.tick(now)
            self._has_retried |= task.execute_retries(now, self._tick_at, others_wait=partition in backlog) > 0
        self._has_retried |= self._pauses.look(backlog)
        self._guarantee.tick(now)
        self._on_tick(now)

    def _assigned(self, partitions: Sequence[int]) -> None:
        if not partitions:
            return
        opened = {
            partition: BoltTask(self._topology, self._component, partition, self._environment)
            for partition in partitions
        }
        self._guarantee.open(opened)
        for partition, task in opened.items():
            task.prepare()
            self.tasks[partition] = task
        self._pauses.hold_new(partitions)
        logger.info("%s has tasks %s", self._component, sorted(self.tasks))

    def _released(self, partitions: Sequence[int]) -> None:
        held = [partition for partition in partitions if partition in self.tasks]
        if not held:
            return
        self._guarantee.set_back(self._unexecuted(held))
        self._end_tasks(held)
        logger.info("%s released tasks %s", self._component, held)

    def _end_tasks(self, partitions: Sequence[int]) -> None:
        try:
            with ExitStack() as stack:
                for partition in partitions:
                    stack.callback(self.tasks[partition].cleanup)
                stack.callback(self._drop_read, partitions)
                self._finish(partitions)
            # Not after an error: tuples that were emitted for an input that stays open must not be committed.
            self._guarantee.release(partitions)
        finally:
            for partition in partitions:
                del self.tasks[partition]

    def _save_committed(self) -> None:
        self._guarantee.save(self._unexecuted(self.tasks))

    def _lost(self, partitions: Sequence[int]) -> None:
        self._cleaned_up(partitions)
        self._guarantee.drop(partitions)

    def _begin_again(self, why: str) -> None:
        """Replaces all tasks by new ones, which continue from the committed offsets."""
        partitions, offsets = tuple(self.tasks), dict[int, int]()
        logger.warning("%s begins again from the committed offsets of tasks %s: %s", self._component, partitions, why)
        if self._guarantee.commits_first:
            self._guarantee.roll_back(why)
            # A commit that has failed may still be applied, and no process would read these records again.
            offsets = first_offsets(self._unexecuted(partitions))
            self._end_tasks(partitions)
        else:
            # First, because the roll-back must also undo what the tasks ack or emit while they end.
            self._cleaned_up(partitions)
            self._guarantee.roll_back(why)
        self._pauses.begin_again()
        self._reader.rewind(partitions, offsets)
        self._assigned(partitions)

    def _unexecuted(self, partitions: Iterable[int]) -> list[Any]:
        """Removes the records that are not begun from the backlog, and returns the held records and then these."""
        held = [task.unread.held for at, task in self.tasks.items() if at in partitions]
        return [*(each.record for each in held if each is not None), *self._backlog.take(partitions)]

    def _cleaned_up(self, partitions: Sequence[int]) -> None:
        """Ends tasks without a commit: the process has lost them, rolls them back, or is failing."""
        self._drop_read(partitions)
        for task in [self.tasks.pop(each) for each in partitions if each in self.tasks]:
            with suppress(ComponentError):
                task.cleanup()

    def _drop_read(self, partitions: Sequence[int]) -> None:
        """Forgets the records of tasks that end; their next owner reads them again, unless they are committed."""
        records = self._backlog.drop(partitions)
        tasks = [self.tasks[each] for each in partitions if each in self.tasks]
        tuples = sum(task.first.waiting + task.running_inputs + task.waiting_retries for task in tasks)
        for task in tasks:
            task.first.drop_waiting()
        self._guarantee.discard(records, tuples, partitions)
        self._pauses.forget(partitions)

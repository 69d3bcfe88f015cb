"""The loop of a spout process: emit, handle outcomes, send."""

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Final

from confluent_kafka import Message

from kafka_clients.control_reader import ControlReader
from kafka_clients.log_reader import LogReader
from kafka_clients.loop_runner import NOT_STALLED, Stalled
from kafka_clients.repeated_lines import get_logger
from spout_sdk.bolts.head_task import open_sessions
from spout_sdk.delivery.exactly_once import GUARANTEES
from spout_sdk.errors import ComponentError
from spout_sdk.kafka_spout.kafka_source import KafkaSource
from spout_sdk.runtime.execute_watch import LONGEST_EXECUTE_MS, MAX_POLL
from spout_sdk.runtime.task_loop import ComponentProcess, ProcessSink, TaskLoop
from spout_sdk.spouts.spout_task import RUN_SECONDS, SpoutTask
from spout_sdk.statistics.stats import Stats, worst_of
from tuple_tree.control import ControlState
from tuple_tree.names import notices_topic
from tuple_tree.timing import Stall

logger = get_logger("spout_sdk.spout")

_LARGEST_READ: Final = 500
_TICK_SECONDS: Final = 0.0025
_THROTTLED_SECONDS: Final = 0.02
_SHORTEST_IDLE: Final = 0.001
_LONGEST_IDLE: Final = 0.01
_JOIN_SECONDS: Final = 10.0  # how long tasks wait for processes that have not joined the group yet
_REVOKE_SECONDS: Final = 3.0  # how long open trees may take when a task moves to another process
_IDLE_SHARE: Final = 1 / 16  # an idle spout is called again after this fraction of the time since its last work


class SpoutLoop(TaskLoop[SpoutTask]):
    """Runs the tasks of a spout that the consumer group assigns to this process.

    A task is a partition of the notices topic. With `at_most_once` the topic has no notices, but still assigns tasks.
    """

    def __init__(self, process: ComponentProcess, sink: ProcessSink) -> None:
        notices = notices_topic(process.topology.name, process.component)
        # The calls of chained bolts may take that long; then `ExecuteWatch` ends the process.
        kafka = {MAX_POLL: LONGEST_EXECUTE_MS, **process.kafka} if process.chained else process.kafka
        # A new session has no open trees, so no task needs earlier outcomes.
        super().__init__(process, sink, notices, kafka, from_end=True)
        # With exactly once, a spout without chained bolts has only acks to follow.
        guarantee = process.topology.manifest.guarantee
        if guarantee == "exactly_once" and not self._environment.is_transactional:
            guarantee = "at_least_once"
        parts = (sink, self._reader, self.tasks, process.counters)
        self._guarantee = GUARANTEES[guarantee](self._component, *parts, clock=process.clock)
        self._environment = replace(
            self._environment,
            open_source=lambda: KafkaSource(process.kafka, self._group, self._reader),
        )
        self._work = Stall(process.topology.longest_silence(process.component))
        self._undone = "no outcome of its open trees has come"
        self._worked_at = 0.0
        self._control = process.control
        declared = process.topology.manifest.component(process.component)
        self._share = -(-declared.tasks // process.members)
        self._joins_until = process.clock() + _JOIN_SECONDS if process.members > 1 else 0.0
        self._kafka = process.kafka

    @property
    def pending(self) -> int:
        return sum(task.pending for task in self.tasks.values())

    @property
    def has_work(self) -> bool:
        return self.pending > 0

    @property
    def _control_state(self) -> ControlState | None:
        """The requested state; None while that is not known, or tasks will move to processes that start as well."""
        if self._clock() < self._joins_until:
            return None
        return "running" if self._control is None else self._control.state

    def stats(self, stalled: Stalled = NOT_STALLED) -> Stats:
        retrying = sum(task.retrying for task in self.tasks.values())
        failed = worst_of(task.most_failed for task in list(self.tasks.values()))
        control = (self._control_state or "unknown",)
        return replace(super().stats(stalled), control=control, retrying=retrying, most_failed=failed)

    @property
    def _emitted(self) -> int:
        return self._environment.counters.emitted

    def _save_committed(self) -> None:
        self._guarantee.save(())

    def close(self) -> None:
        self._cleaned_up(tuple(self.tasks))
        self._guarantee.close()
        self._reader.close()

    def _turn(self) -> bool:
        emitted = False
        for task in tuple(self.tasks.values()):
            emitted |= task.emit(task.source.calls)
            if task.is_throttled and not self._flush_timing.wait_seconds(self._emitted):
                # The task emits nothing more until a tree ends.
                task.flush()
        now = self._clock()
        if now >= self._tick_at:
            self._tick(now)
        handled = self._handle_notices(0)
        if emitted or handled:
            self._worked_at = now
            return True
        self._sink.send_lingering()
        if seconds := self._flush_timing.wait_seconds(self._emitted):
            return self._handle_notices(seconds)
        self._flush()
        if any(task.has_open for task in self.tasks.values()):
            # Tasks wait for delivery reports, or chained bolts for each other.
            waited = self._sink.wait_reports(_SHORTEST_IDLE)
            return self._handle_notices(0 if waited else _SHORTEST_IDLE)
        throttled = all(task.is_throttled for task in self.tasks.values())
        idle = min(_LONGEST_IDLE, max(_SHORTEST_IDLE, _IDLE_SHARE * (now - self._worked_at)))
        is_running = self._control_state == "running"
        if self.tasks and is_running and not self.pending and all(task.source.waits for task in self.tasks.values()):
            # No tree is open, so no outcome can arrive: wait for messages.
            found = [task.source.wait(idle / len(self.tasks)) for task in self.tasks.values()]
            return self._handle_notices(0) or any(found)
        return self._handle_notices(_THROTTLED_SECONDS if throttled else idle)

    def _flush(self) -> None:
        self._tick(now := self._clock())
        self._flush_timing.flushed(self._emitted)
        self._guarantee.flush(now)
        self._sink.send_lingering()

    def _look_at_control(self, reader: ControlReader, now: float) -> None:
        before = reader.state
        reader.look(now)
        if (control := reader.control) is not None and control.state != (before or "running"):
            by = f", requested by {control.by}" if control.by else ""
            logger.info("%s of %s is %s%s", self._component, self._topology.name, control.state, by)

    def _handle_notices(self, seconds: float) -> bool:
        """Handles the outcomes that are available, or that arrive within `seconds`."""
        records = self._reader.read(1 if seconds else _LARGEST_READ, seconds)
        self._handle(records)
        return bool(records)

    def _handle(self, records: Sequence[Message]) -> None:
        for record in records:
            partition, offset = record.partition(), record.offset()
            if (task := self.tasks.get(partition)) is not None:  # type: ignore[arg-type]
                task.handle(record)
                self._reader.read_to[partition] = offset + 1  # type: ignore[operator,index]

    def _tick(self, now: float) -> None:
        self._tick_at = now + _TICK_SECONDS
        if self.tasks and len(self.tasks) <= self._share:
            self._joins_until = 0.0
        if self._control is not None:
            self._look_at_control(self._control, now)
        for task in tuple(self.tasks.values()):
            task.control, task.run_seconds = self._control_state, RUN_SECONDS / len(self.tasks)
            task.tick(now)
        self._guarantee.tick(now)
        self._on_tick(now)

    def _assigned(self, partitions: Sequence[int]) -> None:
        if not partitions:
            return
        opened = {each: SpoutTask(self._topology, self._component, each, self._environment) for each in partitions}
        # Not in a transaction without an offset: each transaction of a spout commits one, so the group can fence it.
        open_sessions(self._sink, list(opened.values()))
        for partition, task in opened.items():
            task.control = self._control_state
            task.open()
            self.tasks[partition] = task
        logger.info("%s has tasks %s", self._component, sorted(self.tasks))

    def _revoked(self, partitions: Sequence[int]) -> None:
        """Waits for the outcomes of open trees: the next owner of a task emits again what is open.

        The trees of an open transaction do not complete before its commit.
        """
        tasks = [self.tasks[each] for each in partitions if each in self.tasks]
        if any(task.pending for task in tasks) and not self._environment.is_transactional:
            deadline = self._clock() + _REVOKE_SECONDS
            # The consumer fetches nothing during a rebalance.
            with LogReader(self._kafka, group=self._group, role=None, has_ends=False) as reader:
                reader.assign({self._reader.place(each): self._reader.read_to[each] for each in partitions})
                while any(task.pending for task in tasks) and self._clock() < deadline and not self._stopping():
                    self._flush()
                    self._handle(reader.poll(_TICK_SECONDS))
        self._released(partitions)

    def _released(self, partitions: Sequence[int]) -> None:
        held = [partition for partition in partitions if partition in self.tasks]
        if not held:
            return
        tasks = [self.tasks[partition] for partition in held]
        self._finish(tasks)
        with ExitStack() as stack:
            for partition in held:
                stack.callback(self._end, partition)
            for task in tasks:
                task.cleanup()  # bolts may still emit and ack
            # Not after an error: tuples that were emitted for a message that stays open must not be committed.
            self._guarantee.release(held)
        logger.info("%s released tasks %s", self._component, held)

    def _finish(self, tasks: Sequence[SpoutTask]) -> None:
        """Executes the inputs that chained bolts have begun."""
        chained = [task for task in tasks if task.steps]
        deadline = self._clock() + max((task.stop_timeout for task in chained), default=0.0)
        while any(task.running_inputs for task in chained) and (now := self._clock()) < deadline:
            self._sink.poll()
            for task in chained:
                task.tick(now)
                task.wait(_TICK_SECONDS)

    def _begin_again(self, why: str) -> None:
        partitions = tuple(self.tasks)
        logger.warning("%s begins again from the committed offsets of tasks %s: %s", self._component, partitions, why)
        self._cleaned_up(partitions)
        self._guarantee.roll_back(why)
        self._assigned(partitions)

    def _lost(self, partitions: Sequence[int]) -> None:
        self._cleaned_up(partitions)
        self._guarantee.drop(partitions)

    def _cleaned_up(self, partitions: Sequence[int]) -> None:
        """Ends tasks without a commit: the process has lost them, rolls them back, or is failing."""
        for partition in self.tasks.keys() & partitions:
            with suppress(ComponentError):
                self.tasks[partition].cleanup()
            self._guarantee.discard((), 0, [partition])
            self._end(partition)

    def _end(self, partition: int) -> None:
        task = self.tasks.pop(partition)
        task.close()
        if task.pending:
            what = (self._component, partition, task.pending)
            logger.info("%s/%d leaves %d trees without an outcome: their messages are not done", *what)

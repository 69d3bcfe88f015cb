"""Exactly once: a process's tuples, ack batches, dead letters and input offsets, committed in one transaction.

One transaction covers all tasks of a process. It ends when it is old enough, and as soon as the input has run dry, but
only where no input that will be read again can have had an effect (see `TracedOffsets`).
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from confluent_kafka import Message

from spout_sdk.api.tuples import InputPack
from spout_sdk.bolts.bolt_task import BoltTask
from spout_sdk.delivery.delivery_guarantees import DeliveryGuarantee, FailedCommits
from spout_sdk.delivery.transactional_sink import TransactionalSink
from spout_sdk.emitting.environment import TaskEnvironment
from spout_sdk.emitting.input_offsets import InputOffsets
from spout_sdk.errors import HeldBackError, RolledBackError

logger = logging.getLogger("spout_sdk.bolt")

INTERVAL_SECONDS: Final = 0.1
"""How old a transaction becomes under load."""


class TracedOffsets(InputOffsets):
    """The open records of a task, and how much it had emitted before each: may a transaction be committed with them?

    What is committed of an input that is read again happens twice. An input is read again if the offset to commit does
    not lie behind it, so none that does not may have had an effect. Two things are effects: a tuple that was emitted,
    and an ack or a fail. Which input a tuple was emitted for cannot be known, as it need not be anchored; but it was
    for one that was executed before. So an open record has had no effect, surely, if none of its tuples is settled, and
    since it was handed out no tuple was emitted and no record behind it was done. A bolt that collects inputs, and
    emits and acks for all of them at once, meets that at any time. So does one that is a fold over its inputs: what it
    has done with those that are open is committed beside the offset.
    """

    def __init__(self, emitted: Callable[[], int]) -> None:
        super().__init__()
        self._emitted = emitted
        self.folds = False  # whether what was done with open records is committed beside the offset
        self._traces: deque[tuple[int, int]] = deque()

    def open(self, pack: InputPack) -> None:
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


class ExactlyOnce(DeliveryGuarantee):
    """Commits in transactions."""

    def __init__(self, environment: TaskEnvironment, sink: TransactionalSink, component: str) -> None:
        super().__init__(environment)
        self._sink = sink
        self._component = component
        self._inputs: dict[int, TracedOffsets] = {}
        self._unopened: dict[int, BoltTask] = {}
        self._committed: dict[int, int] = {}
        self._since: float | None = None
        self._failed = FailedCommits()

    def environment(self, partition: int) -> TaskEnvironment:
        """One with a sink that takes part in the transactions."""

        def inputs(emitted: Callable[[], int]) -> InputOffsets:
            offsets = self._inputs[partition] = TracedOffsets(emitted)
            return offsets

        return replace(self._environment, inputs=inputs)

    def on_assigned(self, tasks: Mapping[int, BoltTask]) -> None:
        self._unopened.update(tasks)
        for partition, task in tasks.items():
            self._inputs[partition].folds = task.folds

    def on_polled(self, records: Sequence[Message]) -> None:
        """Opens the sessions of tasks that have their first records, and lets them go on where others were.

        Not before: a transaction without the offset of an input could still be committed by a process that lost its
        place in the group, and what it opens would then supersede the session of the task's new owner.
        """
        if not self._unopened:
            return
        for record in records:
            partition: int = record.partition()  # type: ignore[assignment]
            task = self._unopened.pop(partition, None)
            if task is not None:
                if task.folds:
                    [at] = self._reader.committed([partition])
                    task.resume(at.offset, at.metadata)
                task.open_session()

    def on_tick(self, now: float) -> None:
        self._sink.poll()
        if self._since is None:
            if self._sink.is_used or self._offsets() != self._committed:
                self._since = now
        elif now - self._since >= INTERVAL_SECONDS:
            self._commit_if_whole(now)

    def on_idle(self, now: float) -> None:
        self._commit_if_whole(now)

    def on_revoked(self, partitions: Sequence[int]) -> None:
        """Commits, or undoes what cannot be committed, that of the other tasks as well: a `RolledBackError`."""
        try:
            if not self._commit():
                logger.warning(
                    "%s gives up tasks %s while it holds back inputs that it has emitted for: all that was done since "
                    "the last commit is undone, and done again",
                    self._component,
                    list(partitions),
                )
                raise RolledBackError("a task was given up that holds back inputs")
        except RolledBackError:
            self._abort()
            raise
        finally:
            self._forget(partitions)

    def on_lost(self, partitions: Sequence[int]) -> None:
        """Aborts their transaction; a `RolledBackError` if that undid something of other tasks as well."""
        held = [partition for partition in partitions if partition in self._inputs]
        self._forget(partitions)
        if held and self._sink.is_used:
            self._abort()
            if self._tasks:
                raise RolledBackError(f"tasks {held} were lost to others")

    def on_rolled_back(self, why: str) -> None:
        self._environment.counters.rollbacks += 1
        self._failed.failed(self._component, why)
        self._abort()
        self._forget(tuple(self._inputs))

    def close(self) -> None:
        """Aborts the open transaction, so that readers do not wait for its timeout."""
        self._sink.close()

    def _commit_if_whole(self, now: float) -> None:
        if self._commit() or self._since is None or now - self._since < self._sink.timeout / 2:
            return
        for partition, inputs in self._inputs.items():
            if not inputs.is_repeatable:
                raise HeldBackError(self._component, partition, inputs.oldest_open, self._sink.timeout / 2)

    def _commit(self) -> bool:
        """Commits if there is anything to commit; False if it cannot be committed yet."""
        for task in self._tasks.values():
            task.flush()
        offsets = self._offsets()
        if not self._sink.is_used and offsets == self._committed:
            # The task that made it wait may have moved to another process.
            self._since = None
            return True
        if not all(inputs.is_repeatable for inputs in self._inputs.values()):
            return False
        # Emits of a tick may precede all input. Without an offset, the group would not fence their transaction.
        if offsets:
            positions = self._reader.positions(offsets, {at: self._tasks[at].progress for at in offsets})
        else:
            positions = self._reader.starts(tuple(self._inputs))
        self._sink.commit(positions, self._reader.place_in_group)
        self._committed = offsets
        self._since = None
        self._failed.succeeded()
        self._environment.counters.transactions += 1
        return True

    def _abort(self) -> None:
        self._sink.abort()
        self._since = None

    def _offsets(self) -> dict[int, int]:
        committable = {partition: inputs.committable for partition, inputs in self._inputs.items()}
        return {partition: offset for partition, offset in committable.items() if offset is not None}

    def _forget(self, partitions: Sequence[int]) -> None:
        for partition in partitions:
            self._inputs.pop(partition, None)
            self._unopened.pop(partition, None)
            self._committed.pop(partition, None)

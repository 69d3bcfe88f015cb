"""The base of the collectors: one tuple is added to the packs of its receivers."""

from collections.abc import Sequence
from typing import Any

from spout_sdk.api.context import TaskHook, TaskId
from spout_sdk.api.tuples import NO_TREES
from spout_sdk.emitting.outbox import Joined
from spout_sdk.emitting.task import Task
from spout_sdk.statistics.stats import Counters
from tuple_tree.input_batch import InputBatch
from tuple_tree.streams import DEFAULT_STREAM


class Emitter:
    """Base of the collectors: a task's streams, and what it reports.

    A collector sets what the next tuples are anchored to, and calls `emit`: to pass that as arguments, through a method
    of its own, would cost each tuple a tenth.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._component = task.context.component
        self._plans = task.plans
        self._outbox = task.outbox
        self._hooks = task.context.hooks
        self._emit_hooks: Sequence[TaskHook] = ()  # of a collector that has no `emit` of its own
        self._counters = task.environment.counters
        self._is_tracked = task.topology.manifest.acking
        # What the next tuples are anchored to: a place in a batch, or the last of several places, and no batch.
        self._batch: InputBatch | None = NO_TREES
        self._place = 0
        self._several: Joined | None = None
        self._receiver: TaskId | None = None  # of a direct emit

    @property
    def metrics(self) -> Counters:
        """Live counters of the tasks of this process; read-only."""
        return self._counters

    def report_error(self, error: BaseException) -> None:
        """Reports an error after which the task continues: it is logged, counted and shown in the stats."""
        self._task.report_error(error)

    def emit(self, values: Sequence[Any], *, stream: str = DEFAULT_STREAM) -> tuple[TaskId, ...]:
        """Sends a tuple, anchored to the input, to every subscriber of a stream.

        Args:
            values: one for each field of the stream, a tuple or a list.
            stream: one of the component's streams.

        Returns:
            The tasks that receive a copy.

        Raises:
            EmitError: if the stream is unknown or direct, or the values do not fit it; nothing was sent then.
        """
        # First: a grouping of the user's may emit, too.
        batch, place, several, receiver = self._batch, self._place, self._several, self._receiver
        plan = self._plans.get(stream) or self._task.plan(stream)
        row = values if values.__class__ is tuple and plan.is_row(values) else plan.row(values)
        try:
            packs, tasks = plan.choose(values) if receiver is None else plan.direct(receiver)
        except (TypeError, ValueError) as error:
            raise plan.ungrouped(values, error) from error
        self._counters.emitted += 1
        is_full = False
        try:
            for pack in packs:
                if pack.batch is not batch:
                    self._outbox.turn(pack, batch, several)
                rows = pack.rows
                rows.append(row)
                pack.places.append(place)
                if len(rows) >= pack.limit:
                    is_full = True
            if is_full:
                # Not before all deliveries are added: the init of a spout's tuple has the edges of all.
                self._outbox.send_full(packs)
        except BaseException:
            self._outbox.keep_open(((batch, place),) if batch is not None else several.places)  # type: ignore[union-attr]
            raise
        if self._emit_hooks:
            self._emitted(values, stream, tasks)
        return tasks

    _emit = emit  # for collectors with an `emit` of their own

    def _emitted(self, values: Sequence[Any], stream: str, tasks: tuple[TaskId, ...]) -> None:
        """Calls the hooks after an emit."""

"""The base of the collectors: one tuple is added to the packs of its receivers."""

from collections.abc import Sequence
from typing import Any

from spout_sdk.api.context import TaskId
from spout_sdk.emitting.outbox import Joined
from spout_sdk.emitting.task import Task
from spout_sdk.statistics.stats import Counters
from tuple_tree.input_batch import InputBatch


class Emitter:
    """Base of the collectors: a task's streams, and what it reports."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._component = task.context.component
        self._plans = task.plans
        self._outbox = task.outbox
        self._hooks = task.context.hooks
        self._counters = task.environment.counters
        self._is_tracked = task.topology.manifest.acking

    @property
    def metrics(self) -> Counters:
        """Live counters of the tasks of this process; read-only."""
        return self._counters

    def report_error(self, error: BaseException) -> None:
        """Reports an error after which the task continues: it is logged, counted and shown in the stats."""
        self._task.report_error(error)

    def _emit(
        self,
        values: Sequence[Any],
        stream: str,
        batch: InputBatch | None,
        place: int,
        joined: Joined | None = None,
        task: TaskId | None = None,
    ) -> tuple[TaskId, ...]:
        """Adds a tuple to a pack of each of its receivers.

        Args:
            values: of its fields.
            stream: which it is emitted to.
            batch: that of the place that it is anchored to; None if there are several.
            place: in the batch; the last of several.
            joined: all of several places.
            task: the receiver of a direct emit.

        Raises:
            EmitError: if the stream is unknown, or the values do not fit it or its groupings; nothing was added then.
        """
        plan = self._plans.get(stream) or self._task.plan(stream)
        row = values if values.__class__ is tuple and plan.is_row(values) else plan.row(values)
        try:
            packs, tasks = plan.choose(values) if task is None else plan.direct(task)
        except (TypeError, ValueError) as error:
            raise plan.ungrouped(values, error) from error
        self._counters.emitted += 1
        is_full = False
        try:
            for pack in packs:
                if pack.batch is not batch:
                    self._outbox.turn(pack, batch, joined)
                rows = pack.rows
                rows.append(row)
                pack.places.append(place)
                if len(rows) >= pack.limit:
                    is_full = True
            if is_full:
                # Not before all deliveries are added: the init of a spout's tuple has the edges of all.
                self._outbox.send_full(packs)
        except BaseException:
            self._outbox.keep_open(((batch, place),) if batch is not None else joined.places)  # type: ignore[union-attr]
            raise
        return tasks

"""The collector of a `BasicBolt`: emits are anchored to the input."""

from collections.abc import Sequence
from typing import Any

from spout_sdk.api.context import EmitInfo, TaskId
from spout_sdk.api.tuples import Tuple
from spout_sdk.bolts.collectors import OutputCollector
from spout_sdk.emitting.task import Task
from spout_sdk.statistics.stats import Counters
from tuple_tree.input_batch import InputBatch
from tuple_tree.streams import DEFAULT_STREAM


class BasicCollector:
    """The collector of a `BasicBolt`.

    Attributes:
        input: the tuple that is being executed.
    """

    __slots__ = ("_batch", "_collector", "_emit", "_hooks", "_task", "input")

    def __init__(self, task: Task, collector: OutputCollector) -> None:
        self.input: Tuple | None = None
        self._collector = collector
        self._batch: InputBatch | None = None
        self._task, self._hooks = task, task.context.hooks
        self._emit = collector._emit

    def emit(self, values: Sequence[Any], *, stream: str = DEFAULT_STREAM) -> tuple[TaskId, ...]:
        """Sends a tuple, anchored to the input, to every subscriber of a stream.

        Returns:
            The tasks that receive a copy.

        Raises:
            EmitError: if the stream is unknown or direct, or the values do not fit it.
        """
        if (batch := self._batch) is None:
            return self._collector.emit(values, anchors=self.input or (), stream=stream)
        input_: Any = self.input  # there is one
        tasks = self._emit(values, stream, batch, input_.place)
        if self._hooks:
            self._task.call_emit_hooks(EmitInfo(values, stream, tasks, anchors=(input_,)))
        return tasks

    def emit_direct(self, task: TaskId, values: Sequence[Any], *, stream: str = DEFAULT_STREAM) -> tuple[TaskId, ...]:
        """Sends a tuple, anchored to the input, to one task of a subscriber of a direct stream.

        Returns:
            The task.

        Raises:
            EmitError: if the stream is not direct, or the task does not receive it.
        """
        return self._collector.emit_direct(task, values, anchors=self.input or (), stream=stream)

    def report_error(self, error: BaseException) -> None:
        """Reports an error after which the task continues: it is logged, counted and shown in the stats."""
        self._collector.report_error(error)

    @property
    def metrics(self) -> Counters:
        """Live counters of the tasks of this process; read-only."""
        return self._collector.metrics

    def reset_timeout(self) -> None:
        """Restarts the clock of the input's trees: it is still being worked on."""
        if self.input is not None:
            self._collector.reset_timeout(self.input)

"""Calls an `AggregateBolt`: each tuple changes the values of its windows once."""

from collections.abc import Callable
from typing import Any

from spout_sdk.api.tuples import Tuple
from spout_sdk.bolts.operator import Operator
from spout_sdk.emitting.task import Task
from spout_sdk.operators.basic_bolt import BasicCollector, BasicOperator
from spout_sdk.state.state_operator import REPLAYED, KeysOfTuples
from spout_sdk.windows.late_tuples import UNSEEN, LateTuples
from spout_sdk.windows.window_columns import WindowColumnsOperator, works_on_columns
from spout_sdk.windows.window_state import WindowState


class WindowOperator(BasicOperator):
    """Changes the values of the windows of each tuple once; acks the tuples of a call together."""

    def __init__(self, bolt: Any, task: Task, *rest: Any) -> None:
        super().__init__(bolt, task, *rest)
        self.state = WindowState(bolt, task)
        self._time_of = bolt.window.milliseconds_of
        self._keys = KeysOfTuples(self.state.key_codec, self.state.key_fields)
        self._late = LateTuples(task.context, bolt.window.late_stream)

    @property
    def _call(self) -> Callable[[Tuple, BasicCollector], object]:
        return self._apply

    def _apply(self, tuple_: Tuple, collector: BasicCollector) -> None:
        state, index = self.state, tuple_.index
        if tuple_.pack is not state.pack:
            state.turn(tuple_.pack)
        key, value = self._keys(tuple_)
        time = state.number(key) if state.is_counted else self._time_of(tuple_)
        if index in state.repeats and state.is_repeat(index):
            self._task.context.count(REPLAYED)
            if not state.closes:
                for window, of_window in state.current(key, time):
                    self._emit(state.result(value, window, of_window), collector)
            return
        changes = state.changes_of(state.key_of(key), time, tuple_)
        if changes is None:
            self._late.take(tuple_, lambda values, stream: collector.emit(values, stream=stream))
        else:
            if not changes:
                self._task.context.count(UNSEEN)
            if not state.closes:
                for each in changes:
                    if each.value is not None:
                        self._emit(state.result(value, each.window, each.value), collector)
            if changes:
                state.collect(key, time, tuple_)
            # Last, so that a call that raises has changed nothing.
            state.change(key, changes)
            state.note(index)
        if not state.is_counted:
            state.see(index, time)

    @staticmethod
    def _emit(result: Any, collector: BasicCollector) -> None:
        if result is not None:
            collector.emit(result)


def window_operator(bolt: Any, task: Task, *rest: Any) -> Operator:
    """The operator of a bolt; it works on columns if that is possible."""
    return (WindowColumnsOperator if works_on_columns(bolt, task) else WindowOperator)(bolt, task, *rest)

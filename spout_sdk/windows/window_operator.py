"""Calls an `AggregateBolt`: each tuple changes the values of its windows once."""

from typing import Any

from spout_sdk.api.tuples import Tuple
from spout_sdk.bolts.operator import Operator
from spout_sdk.emitting.task import Task
from spout_sdk.operators.basic_bolt import BasicCollector
from spout_sdk.state.keyed_operator import KeyedOperator
from spout_sdk.windows.late_tuples import UNSEEN, LateTuples
from spout_sdk.windows.window_columns import WindowColumnsOperator, works_on_columns
from spout_sdk.windows.window_state import WindowState


class WindowOperator(KeyedOperator):
    """Changes the values of the windows of each tuple, and emits results."""

    def __init__(self, bolt: Any, task: Task, *rest: Any) -> None:
        state = WindowState(bolt, task)
        super().__init__(state, state.key_codec, bolt, task, *rest)
        self._time_of = bolt.window.milliseconds_of
        self._late = LateTuples(task.context, bolt.window.late_stream)

    def _change(self, key: bytes, values: Any, tuple_: Tuple, collector: BasicCollector) -> None:
        state = self.state
        time = self._time(key, tuple_)
        changes = state.changes_of(state.key_of(key), time, tuple_)
        if changes is None:
            self._late.take(tuple_, lambda values, stream: collector.emit(values, stream=stream))
        else:
            if not changes:
                self._task.context.count(UNSEEN)
            if not state.closes:
                for each in changes:
                    if each.value is not None:
                        self._emit(state.result(values, each.window, each.value), collector)
            if changes:
                state.collect(key, time, tuple_)
            state.change(key, changes)
            state.note(tuple_.index)
        if not state.is_counted:
            state.see(tuple_.index, time)

    def _repeat(self, key: bytes, values: Any, tuple_: Tuple, collector: BasicCollector) -> None:
        state = self.state
        for window, of_window in () if state.closes else state.current(key, self._time(key, tuple_)):
            self._emit(state.result(values, window, of_window), collector)

    def _time(self, key: bytes, tuple_: Tuple) -> Any:
        return self.state.number(key) if self.state.is_counted else self._time_of(tuple_)

    @staticmethod
    def _emit(result: Any, collector: BasicCollector) -> None:
        if result is not None:
            collector.emit(result)


def window_operator(bolt: Any, task: Task, *rest: Any) -> Operator:
    """The operator of a bolt; it works on columns if that is possible."""
    return (WindowColumnsOperator if works_on_columns(bolt, task) else WindowOperator)(bolt, task, *rest)

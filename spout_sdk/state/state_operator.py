"""Calls a `StatefulBolt`: each tuple changes the value of its key once, and emits."""

from typing import Any

from spout_sdk.api.tuples import Tuple
from spout_sdk.emitting.task import Task
from spout_sdk.state.collectors import StateCollector, send_held
from spout_sdk.state.deletion import DELETE
from spout_sdk.state.keyed_operator import KeyedOperator
from spout_sdk.state.task_state import TaskState


class StateOperator(KeyedOperator):
    """Calls `update` and `emit` of a `StatefulBolt`."""

    makes_collector = StateCollector

    def __init__(self, bolt: Any, task: Task, *rest: Any) -> None:
        state = TaskState(bolt, task)
        super().__init__(state, state.keys, bolt, task, *rest)
        self._update, self._emit = bolt.update, bolt.emit

    def _change(self, key: bytes, values: Any, tuple_: Tuple, collector: Any) -> None:
        collector.held.clear()
        state, table = self.state, self.state.table
        changed = self._update(table.get(key), tuple_)
        if changed is None or changed is DELETE:
            state.absence.check(changed)
            changed = None
        payload = table.encoded(key, changed)
        kept = changed if table.copied is None or changed is None else table.copied(changed)
        self._emit(values, changed, tuple_, collector)
        state.set(key, kept, payload)
        state.note(tuple_.index)
        if collector.held:
            send_held(collector.held, self._task, self._settlement)

    def _repeat(self, key: bytes, values: Any, tuple_: Tuple, collector: Any) -> None:
        collector.held.clear()
        self._emit(values, self.state.table.current(key), tuple_, collector)
        send_held(collector.held, self._task, self._settlement)

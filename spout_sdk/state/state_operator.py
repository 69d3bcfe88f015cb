"""Calls a `StatefulBolt`: each tuple changes the value of its key once, and emits."""

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

from spout_sdk.api.tuples import InputStream, Tuple
from spout_sdk.emitting.task import Task
from spout_sdk.operators.basic_bolt import BasicCollector, BasicOperator
from spout_sdk.state.collectors import StateCollector, send_held
from spout_sdk.state.deletion import DELETE
from spout_sdk.state.task_state import TaskState
from tuple_tree.state_records import KeyCodec

REPLAYED: Final = "replayed tuples"
"""The user counter of tuples that changed nothing, because the state had applied them before."""


class StateOperator(BasicOperator):
    """Changes the value of each tuple's key once, anchors emits to the tuple, and acks it."""

    makes_collector = StateCollector

    def __init__(self, bolt: Any, task: Task, *rest: Any) -> None:
        super().__init__(bolt, task, *rest)
        self.state = TaskState(bolt, task)
        self._update, self._emit = bolt.update, bolt.emit
        self._keys = KeysOfTuples(self.state.keys, self.state.key_fields)

    @property
    def _call(self) -> Callable[[Tuple, BasicCollector], object]:
        return self._apply

    def _apply(self, tuple_: Tuple, collector: Any) -> None:
        state, index = self.state, tuple_.index
        if tuple_.pack is not state.pack:
            state.turn(tuple_.pack)
        collector.held.clear()
        table = state.table
        key, values = self._keys(tuple_)
        if index in state.repeats and state.is_repeat(index):
            self._task.context.count(REPLAYED)
            self._emit(values, table.current(key), tuple_, collector)
            send_held(collector.held, self._task, self._settlement)
            return
        changed = self._update(table.get(key), tuple_)
        if changed is None or changed is DELETE:
            state.absence.check(changed)
            changed = None
        payload = table.encoded(key, changed)
        kept = changed if table.copied is None or changed is None else table.copied(changed)
        self._emit(values, changed, tuple_, collector)
        # After the user's code, so that a call that raises has changed and written nothing.
        state.set(key, kept, payload)
        state.note(index)
        if collector.held:
            send_held(collector.held, self._task, self._settlement)


class KeysOfTuples:
    """Gets the key of a tuple: its bytes, and for users the value of the field, or a tuple of several values."""

    def __init__(self, keys: KeyCodec, fields: Mapping[tuple[str, str], Sequence[str]]) -> None:
        self._encode = keys.encode
        self._is_text = keys.is_text
        self._fields = fields
        self._getters: dict[InputStream, Callable[[Any], Any]] = {}
        self._stream: InputStream | None = None  # of the last tuple
        self._values: Callable[[Any], Any] = itemgetter(0)
        self._is_single = len(keys.names) == 1

    def __call__(self, tuple_: Tuple) -> tuple[bytes, Any]:
        if (stream := tuple_.pack.stream) is not self._stream:
            self._turn(stream)
        value = self._values(tuple_.values)
        if self._is_text and value.__class__ is str:
            return value.encode(), value
        return self._encode((value,) if self._is_single else value), value

    def _turn(self, stream: InputStream) -> None:
        getter = self._getters.get(stream)
        if getter is None:
            names = self._fields[stream.component, stream.stream]
            # A global grouping has one key, without fields.
            at = [stream.fields[name] for name in names]
            self._getters[stream] = getter = itemgetter(*at) if at else lambda _: ()
        self._stream, self._values = stream, getter

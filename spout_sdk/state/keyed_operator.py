"""Calls a bolt that has a value for each key: each tuple changes the value of its key once."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

from spout_sdk.api.tuples import InputStream, Tuple
from spout_sdk.emitting.task import Task
from spout_sdk.operators.basic_bolt import BasicCollector, BasicOperator
from tuple_tree.state_records import KeyCodec

REPLAYED: Final = "replayed tuples"
"""The user counter of tuples that changed nothing, because the state had applied them before."""


class KeyedOperator(BasicOperator):
    """Changes the values of each tuple's key once, anchors emits to the tuple, and acks it.

    Args:
        state: of the bolt's task.
        keys: encodes the keys of its values.
    """

    def __init__(self, state: Any, keys: KeyCodec, bolt: Any, task: Task, *rest: Any) -> None:
        super().__init__(bolt, task, *rest)
        self.state = state
        self._keys = KeysOfTuples(keys, state.key_fields)

    @property
    def _call(self) -> Callable[[Tuple, BasicCollector], object]:
        return self._apply

    def _apply(self, tuple_: Tuple, collector: Any) -> None:
        state, index = self.state, tuple_.index
        if tuple_.pack is not state.pack:
            state.turn(tuple_.pack)
        key, values = self._keys(tuple_)
        if index in state.repeats and state.is_repeat(index):
            self._task.context.count(REPLAYED)
            self._repeat(key, values, tuple_, collector)
        else:
            self._change(key, values, tuple_, collector)

    @abstractmethod
    def _change(self, key: bytes, values: Any, tuple_: Tuple, collector: Any) -> None:
        """Applies a tuple; the state changes after the user's code, so that a call that raises has changed nothing."""

    @abstractmethod
    def _repeat(self, key: bytes, values: Any, tuple_: Tuple, collector: Any) -> None:
        """Emits what a tuple emits that was applied before."""


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

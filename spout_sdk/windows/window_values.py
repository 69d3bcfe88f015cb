"""The values of the windows of a bolt: how they begin and change, are stored, and become results."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from spout_sdk.api.tuples import Tuple
from spout_sdk.errors import TopologyError
from spout_sdk.state.deletion import DELETE, Absence
from spout_sdk.state.spec import VALUE, keyed_state, spec_of
from spout_sdk.windows.aggregates import Aggregates
from spout_sdk.windows.open_windows import WINDOW_END
from tuple_tree.manifest import Manifest
from tuple_tree.state_records import ValueCodec


def input_types(manifest: Manifest, bolt: str) -> list[dict[str, Any]]:
    """The Avro types of the fields of each stream that a bolt receives."""
    received = getattr(manifest.component(bolt), "subscriptions", ())
    streams = [manifest.stream(each.source, each.stream) for each in received]
    return [{field.name: field.type for field in stream.fields} for stream in streams]


class WindowValues:
    """The values of a bolt's windows.

    Args:
        types: for each stream that the bolt receives, field → its Avro type.

    Attributes:
        aggregates: the aggregates of the bolt; None if it has a state and `update`.
        spec: the spec of the stored values.

    Raises:
        TopologyError: if an aggregate does not fit the tuples.
        TypeError, ValueError: if the state is invalid.
    """

    def __init__(self, bolt: Any, component: str, types: Sequence[Mapping[str, Any]]) -> None:
        self._bolt = bolt
        self.aggregates = Aggregates(bolt.aggregates, types) if bolt.aggregates else None
        own = keyed_state(self.aggregates.fields) if self.aggregates is not None else spec_of(bolt.state)
        if own.expire_after is not None:
            raise TopologyError("expire_after is for a StatefulBolt: windows end by themselves")
        self._is_single = own.is_single
        self._absence = Absence(bolt, component, own.value, is_single=own.is_single)
        self._has_end = bolt.window.gap is not None or bolt.window.count is not None
        self.spec = own
        if self._has_end:
            fields = {field.name: field.type for field in own.value.fields} | {WINDOW_END: "long"}
            if len(fields) == len(own.value.fields):
                raise TopologyError(f"the state has a field {WINDOW_END!r}, which the SDK adds to it: rename it")
            self.spec = keyed_state(fields, codec="avro" if own.value.codec == "avro" else "json")
        initial = bolt.initial
        if initial is None and self.aggregates is None:
            initial = ValueCodec(own.value, is_single=own.is_single).initial()
        self._initial = initial

    @property
    def result_types(self) -> dict[str, Any] | None:
        """The types of the aggregates, by name; None if the bolt has none."""
        return None if self.aggregates is None else self.aggregates.result_types

    def first(self) -> Any:
        return deepcopy(self._initial) if self.aggregates is None else self.aggregates.first()

    def update(self, value: Any, tuple_: Tuple) -> Any:
        """The value with one more tuple; may change the given value."""
        if self.aggregates is not None:
            return self.aggregates.add(value, tuple_)
        changed = self._bolt.update(value, tuple_)
        if changed is None or changed is DELETE:
            self._absence.check(changed)
            return None
        return changed

    def merge(self, one: Any, other: Any) -> Any:
        """The merged value; may change the first."""
        return self._bolt.merge(one, other) if self.aggregates is None else self.aggregates.merge(one, other)

    def shown(self, value: Any) -> Any:
        return value if self.aggregates is None else self.aggregates.results(value)

    def stored(self, value: Any, end: int) -> Any:
        if value is None or not self._has_end:
            return value
        return {**({VALUE: value} if self._is_single else value), WINDOW_END: end}

    def loaded(self, stored: Any) -> Any:
        """The value without its end, from a stored value."""
        if not self._has_end:
            return stored
        if self._is_single:
            return stored[VALUE]
        return {name: value for name, value in stored.items() if name != WINDOW_END}

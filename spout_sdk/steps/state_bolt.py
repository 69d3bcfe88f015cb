"""`StateStepBolt`: a value for each key that a function changes, as `KeyedStream.state` declares it."""

import copy
import typing
from collections.abc import Callable
from typing import Any

from spout_sdk.api.context import TaskContext
from spout_sdk.api.row_types import RowType, maker
from spout_sdk.api.tuples import InputStream, Tuple
from spout_sdk.arguments import check_seconds
from spout_sdk.errors import TopologyError
from spout_sdk.state.bolt import StatefulBolt
from spout_sdk.state.collectors import StateCollector
from spout_sdk.state.deletion import DELETE
from spout_sdk.state.spec import VALUE, StateSpec
from spout_sdk.steps.function import check_call, function_name
from tuple_tree.streams import DEFAULT_STREAM, not_in_json


class StateStepBolt(StatefulBolt):
    """Changes the value of a row's key with a function, and emits the row with the value.

    Attributes:
        takes: the type of the rows.
    """

    def __init__(
        self, takes: RowType[Any], update: Callable[[Any, Any], Any], initial: Any, expire_after: float | None
    ) -> None:
        check_call(f"state {function_name(update)!r}", update, "value", "row")
        self.takes, self._update = takes, update
        self._value = _value_type(function_name(update), update)
        self._pair: RowType[Any] = RowType(tuple[takes.type, self._value.type])  # type: ignore[name-defined]
        self.streams, self.row_types = (self._pair.stream,), {DEFAULT_STREAM: self._pair}  # type: ignore[misc]
        if expire_after is not None:
            check_seconds("expire_after of the state", expire_after)
        fields = self._value.stream.fields
        codec = "avro" if any(not_in_json(each.type) for each in fields) else "json"
        declared = self._value.stream.model_copy(update={"name": VALUE, "codec": codec})
        self.state = StateSpec(declared, is_single=not self._value.has_members, expire_after=expire_after)
        self.initial = self._kept(initial)
        self._make: dict[InputStream, Callable[[Any], Any]] = {}
        self._is_received = True

    def __call__(self) -> "StateStepBolt":
        """The bolt of a task."""
        made = copy.copy(self)
        made._make = {}
        return made

    def prepare(self, context: TaskContext) -> None:
        received = (each.source for bolt in context.manifest.bolts for each in bolt.subscriptions)
        self._is_received = context.component in received

    def update(self, value: Any, tuple_: Tuple) -> Any:
        changed = self._update(self._object(value), self._row(tuple_))
        return changed if changed is None or changed is DELETE else self._kept(changed)

    def emit(self, key: Any, value: Any, tuple_: Tuple, collector: StateCollector) -> None:  # noqa: ARG002
        if value is not None and self._is_received:
            collector.emit(self._pair.values((self._row(tuple_), self._object(value))))

    def _row(self, tuple_: Tuple) -> Any:
        stream = tuple_.pack.stream
        if (make := self._make.get(stream)) is None:
            self._make[stream] = make = maker({}, self.takes, stream)
        return make(tuple_.values)

    def _object(self, value: Any) -> Any:
        """A value of the state as an object of its type."""
        of = self._value
        return of.row([value[name] for name in of.stream.field_names] if of.has_members else (value,))

    def _kept(self, value: Any) -> Any:
        """An object as a value of the state."""
        of = self._value
        values = of.values(of.checked(value))
        return dict(zip(of.stream.field_names, values, strict=True)) if of.has_members else values[0]


def _value_type(name: str, update: Callable[..., Any]) -> RowType[Any]:
    try:
        hints = typing.get_type_hints(update)
    except Exception as error:  # anything that the text of an annotation raises
        raise TopologyError(f"state {name!r}: its annotations cannot be read ({error}): import the types") from error
    if "return" not in hints:
        raise TopologyError(
            f"state {name!r} does not say the type of its value: write def {name}(value: int, row: Order) -> int, with "
            "your types"
        )
    try:
        return RowType(hints["return"])
    except TopologyError as error:
        raise TopologyError(f"state {name!r}, its value: {error}") from None

"""`StateStepBolt`: a value for each key that a function changes, as `KeyedStream.state` declares it."""

import copy
from collections.abc import Callable
from typing import Any

from spout_sdk.api.context import TaskContext
from spout_sdk.api.row_types import RowType, maker
from spout_sdk.api.tuples import InputStream, Tuple
from spout_sdk.errors import TopologyError
from spout_sdk.state.bolt import StatefulBolt
from spout_sdk.state.collectors import StateCollector
from spout_sdk.state.deletion import DELETE
from spout_sdk.steps.function import annotations_of, check_call, function_name
from spout_sdk.steps.state_value import StateValue
from tuple_tree.streams import DEFAULT_STREAM


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
        row_type = _value_type(function_name(update), update)
        self._value = StateValue(row_type, expire_after)
        self._pair: RowType[Any] = RowType(tuple[takes.type, row_type.type])  # type: ignore[name-defined]
        self.streams, self.row_types = (self._pair.stream,), {DEFAULT_STREAM: self._pair}  # type: ignore[misc]
        try:
            self.state, self.initial = self._value.spec, self._value.kept(initial)
        except Exception as error:  # of a member that has another type
            raise TopologyError(
                f"state {function_name(update)!r} has initial={initial!r}, and its value is {row_type!r}: {error}"
            ) from error
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
        changed = self._update(self._value.object(value), self._row(tuple_))
        return changed if changed is None or changed is DELETE else self._value.kept(changed)

    def emit(self, key: Any, value: Any, tuple_: Tuple, collector: StateCollector) -> None:  # noqa: ARG002
        if value is not None and self._is_received:
            collector.emit(self._pair.values((self._row(tuple_), self._value.object(value))))

    def _row(self, tuple_: Tuple) -> Any:
        stream = tuple_.pack.stream
        if (make := self._make.get(stream)) is None:
            self._make[stream] = make = maker({}, self.takes, stream)
        return make(tuple_.values)


def _value_type(name: str, update: Callable[..., Any]) -> RowType[Any]:
    hints = annotations_of(f"state {name!r}", update)
    if "return" not in hints:
        raise TopologyError(
            f"state {name!r} does not say the type of its value: write def {name}(value: int, row: Order) -> int, with "
            "your types"
        )
    try:
        return RowType(hints["return"])
    except TopologyError as error:
        raise TopologyError(f"state {name!r}, its value: {error}") from None

"""Emits the results of a step: many rows at once, with the same effect as one emit for each."""

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any

from spout_sdk.api.row_types import RowType
from spout_sdk.api.tuples import Tuple
from spout_sdk.emitting.buffer import MultiAnchor
from spout_sdk.emitting.emit_plan import Targets
from spout_sdk.emitting.emitter import Checked, Emitter
from spout_sdk.emitting.task import Task
from spout_sdk.errors import EmitError
from tuple_tree.errors import describe
from tuple_tree.input_batch import NUMBER_STEP, InputBatch
from tuple_tree.streams import DEFAULT_STREAM


class StepEmitter(Emitter):
    """Emits rows to the default stream of a step; a step without results has no such stream."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self._of_type: RowType[Any] | None = task.topology.row_types.get((self._component, DEFAULT_STREAM))
        plan = self._plans.get(DEFAULT_STREAM)
        self._is_bulk = plan is not None and plan.codec.max_rows > 1

    @property
    def has_hooks(self) -> bool:
        """Whether hooks are called for each row."""
        return bool(self._hooks)

    def emit_all(self, rows: Sequence[Any], batch: InputBatch, places: list[int], anchors: Iterable[Tuple]) -> bool:
        """Emits rows, each anchored to its place; returns False, with no effect, if they are to be emitted singly.

        Args:
            anchors: the input of each row, for hooks.
        """
        if not self._is_bulk or self._of_type is None:
            return False
        plan, type_ = self._plans[DEFAULT_STREAM], self._of_type
        if set(map(type, rows)) != {type_.cls}:
            return False
        made = rows
        chosen: list[Targets] = []
        try:
            if not plan.holds_objects:
                made = type_.all_values(rows)
                if not all(map(plan.is_row, made)):
                    return False
            if plan.only is None:
                chosen.extend(map(plan.choose, made))
        except Exception:  # noqa: BLE001 - of one row, whose input fails
            return False
        if self._is_numbered and (emitted := batch.emitted) is not None:
            for at, place in enumerate(places):
                number = emitted[place]
                emitted[place] = number + NUMBER_STEP
                places[at] = place | number
        self._outbox.add_rows(chosen if plan.only is None else plan.only[0], made, batch, places)
        self._counters.emitted += len(made)
        if self._hooks:
            for row, packs, anchor in zip(rows, chosen or repeat(plan.only or ()), anchors, strict=False):
                self._call_hooks(type_.values(row), DEFAULT_STREAM, packs, (anchor,))
        return True

    def checked(self, row: Any) -> tuple[Checked, Sequence[Any]]:
        """A row for `emit_one`, and its values; raises `EmitError` if it does not have the declared type."""
        row, values = checked_row(self._component, self._of_type, row)
        plan = self._plans[DEFAULT_STREAM]
        if not plan.holds_objects:
            return self._check(values, DEFAULT_STREAM), values
        return Checked(row, plan.only if plan.only is not None else plan.choose(values), ()), values

    def emit_one(
        self, checked: Checked, values: Sequence[Any], batch: InputBatch | MultiAnchor, place: int, anchor: Tuple
    ) -> None:
        """Emits a row that was checked."""
        packs = self._emit(values, DEFAULT_STREAM, batch, place, checked=checked)
        if self._hooks:
            self._call_hooks(values, DEFAULT_STREAM, packs, (anchor,))


def checked_row(component: str, gives: RowType[Any] | None, row: Any) -> tuple[Any, tuple[Any, ...]]:
    """A row that a step has returned, and its values.

    Args:
        gives: the type that the step declares; None if it returns nothing.

    Raises:
        EmitError: if the row, or one of its members, does not have that type.
    """
    if gives is None:
        why = f"a {type(row).__name__} was returned, and the annotation of the step says None"
        raise EmitError(component, DEFAULT_STREAM, (), why)
    try:
        row = gives.checked(row)
        return row, gives.values(row)
    except Exception as error:  # of a member that has another type
        why = f"{describe(error)}: return what the annotation of the step says"
        raise EmitError(component, DEFAULT_STREAM, gives.stream.field_names, why) from error

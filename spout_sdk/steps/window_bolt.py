"""`WindowStepBolt`: aggregates of windows as rows of a class, as `WindowedStream.aggregate` declares them."""

from collections.abc import Mapping, Sequence
from typing import Any

from spout_sdk.api.row_members import shown_type
from spout_sdk.api.row_types import RowType
from spout_sdk.errors import TopologyError
from spout_sdk.windows.aggregate_bolt import AggregateBolt, EmitOn
from spout_sdk.windows.aggregates import Aggregate
from spout_sdk.windows.specs import WindowSpec
from spout_sdk.windows.time_windows import TimeWindow
from tuple_tree.streams import DEFAULT_STREAM


class WindowStepBolt(AggregateBolt):
    """Emits a row for each key and window.

    Attributes:
        takes: the type of the rows that are aggregated.
    """

    def __init__(
        self,
        takes: RowType[Any],
        gives: RowType[Any],
        key: Sequence[str],
        spec: WindowSpec,
        emit_on: EmitOn,
        aggregates: Mapping[str, Aggregate],
    ) -> None:
        self.takes, self._key = takes, tuple(key)
        self.window, self.emit_on, self.aggregates = spec, emit_on, dict(aggregates)
        self.streams, self.row_types = (gives.stream,), {DEFAULT_STREAM: gives}  # type: ignore[misc]
        known = (*self._key, "start", "end", *aggregates)
        self._names = gives.stream.field_names
        if wrong := [name for name in self._names if name not in known]:
            raise TopologyError(
                f"{shown_type(gives.type)} has {', '.join(wrong)}, and a result of a window has "
                f"{', '.join(known)}: add an aggregate of that name, as in {wrong[0]}=count()"
            )

    def __call__(self) -> "WindowStepBolt":
        """The bolt of a task."""
        return self

    def result(self, key: Any, window: TimeWindow, value: Any) -> Sequence[Any]:
        keys = key if isinstance(key, tuple) else (key,)
        found = {**dict(zip(self._key, keys, strict=True)), "start": window.start, "end": window.end, **value}
        return tuple(found[name] for name in self._names)

"""The bolts of joins: rows of two sides with the same key, as `KeyedStream.join` and `join_within` declare them."""

import copy
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import make_dataclass, replace
from operator import itemgetter
from typing import Any, Final

from spout_sdk.api.context import TaskContext
from spout_sdk.api.row_types import RowType, maker
from spout_sdk.api.tuples import InputStream, Tuple
from spout_sdk.arguments import check_count, check_seconds
from spout_sdk.state.bolt import StatefulBolt
from spout_sdk.state.collectors import StateCollector
from spout_sdk.state.state_operator import StateOperator
from spout_sdk.steps.emitter import checked_row
from spout_sdk.steps.join_function import JoinFunction
from spout_sdk.steps.state_value import StateValue
from tuple_tree.components import BoltManifest
from tuple_tree.streams import DEFAULT_STREAM

LEFT: Final = "left"
RIGHT: Final = "right"


class JoinBolt(StatefulBolt):
    """Calls a function with a row of each side, and emits what it returns; the rows that it needs later are its state.

    Args:
        function: takes a row of the left side, and one of the right side.
        left: how many of its subscriptions are the left side; they are the first ones.
        value: the value of a key.
    """

    def __init__(self, function: JoinFunction, left: int, value: StateValue) -> None:
        self._function, self._left = function, left
        self.state = value.spec
        gives = function.gives
        self.streams, self.row_types = (gives.stream,), {DEFAULT_STREAM: gives}  # type: ignore[misc]
        self._rows = {
            LEFT: StateValue(function.left, None),
            RIGHT: StateValue(function.right, None),
        }
        self._component = ""
        self._left_sources: set[tuple[str, str]] = set()
        self._sides: dict[InputStream, tuple[str, Callable[[Sequence[Any]], Any]]] = {}

    def __call__(self) -> "JoinBolt":
        """The bolt of a task."""
        made = copy.copy(self)
        made._sides = {}
        return made

    def prepare(self, context: TaskContext) -> None:
        self._component = context.component
        declared = context.manifest.component(context.component)
        subscriptions = declared.subscriptions if isinstance(declared, BoltManifest) else ()
        self._left_sources = {(each.source, each.stream) for each in subscriptions[: self._left]}

    def side(self, tuple_: Tuple) -> str:
        """The side of a row."""
        return self._side(tuple_.pack.stream)[0]

    def _side(self, stream: InputStream) -> tuple[str, Callable[[Sequence[Any]], Any]]:
        if (found := self._sides.get(stream)) is None:
            side = LEFT if (stream.component, stream.stream) in self._left_sources else RIGHT
            takes = self._function.left if side == LEFT else self._function.right
            self._sides[stream] = found = side, maker({}, takes, stream)
        return found

    def _row(self, tuple_: Tuple) -> Any:
        return self._side(tuple_.pack.stream)[1](tuple_.values)

    def _kept(self, tuple_: Tuple) -> Any:
        """A row as a value of the state."""
        of = self._rows[self.side(tuple_)].spec
        values = [tuple_[name] for name in of.value.field_names]
        return values[0] if of.is_single else dict(zip(of.value.field_names, values, strict=True))

    def _emit(self, left: Any, right: Any, collector: StateCollector) -> None:
        made = self._function.call(left, right)
        if made is not None:
            collector.emit(checked_row(self._component, self._function.gives, made)[1])


class TableOperator(StateOperator):
    """Calls a join with a table: a row of the left side emits, and changes nothing."""

    def _change(self, key: bytes, values: Any, tuple_: Tuple, collector: Any) -> None:
        if self._bolt.side(tuple_) == LEFT:
            self._repeat(key, values, tuple_, collector)
        else:
            super()._change(key, values, tuple_, collector)


class TableJoin(JoinBolt):
    """Joins each row of the left side with the latest row of the right side."""

    needs = replace(StatefulBolt.needs, kind="a join", called_by=TableOperator)

    def __init__(self, function: JoinFunction, left: int, expire_after: float | None) -> None:
        super().__init__(function, left, StateValue(function.right, expire_after))

    def update(self, value: Any, tuple_: Tuple) -> Any:  # noqa: ARG002
        return self._kept(tuple_)

    def emit(self, key: Any, value: Any, tuple_: Tuple, collector: StateCollector) -> None:  # noqa: ARG002
        if self.side(tuple_) == LEFT:
            self._emit(self._row(tuple_), self._found(value, tuple_), collector)

    def _found(self, value: Any, tuple_: Tuple) -> Any:  # noqa: ARG002
        """The row of the right side for one of the left side; None if there is none."""
        return None if value is None else self._rows[RIGHT].object(value)


class TableJoinAsOf(TableJoin):
    """Joins each row of the left side with the row of the right side as of its time.

    Args:
        times: the members with the time of either side.
        versions: how many rows of a key are kept.
    """

    def __init__(
        self,
        function: JoinFunction,
        left: int,
        expire_after: float | None,
        times: tuple[str, str],
        versions: int,
    ) -> None:
        value = StateValue(RowType(list[function.right.type]), expire_after)  # type: ignore[name-defined]
        JoinBolt.__init__(self, function, left, value)
        self._at, self._since = times
        self._versions = check_count("versions of a join", versions)

    def update(self, value: Any, tuple_: Tuple) -> Any:
        new = self._kept(tuple_)
        others = [each for each in value if each[self._since] != new[self._since]]
        return sorted([*others, new], key=itemgetter(self._since))[-self._versions :]

    def _found(self, value: Any, tuple_: Tuple) -> Any:
        place = bisect_right(value or (), tuple_[self._at], key=itemgetter(self._since))
        return self._rows[RIGHT].object(value[place - 1]) if place else None


class IntervalJoin(JoinBolt):
    """Joins the rows of both sides whose times differ by an interval at most.

    Args:
        times: the members with the time of either side, in milliseconds.
        seconds: the interval.
        keep: seconds for which rows are kept beyond the interval.
    """

    needs = replace(StatefulBolt.needs, kind="a join")

    def __init__(self, function: JoinFunction, left: int, times: tuple[str, str], seconds: float, keep: float) -> None:
        self._within_ms = round(1000 * check_seconds("seconds of a join", seconds))
        check_seconds("keep of a join", keep)
        sides = [(LEFT, list[function.left.type]), (RIGHT, list[function.right.type])]  # type: ignore[name-defined]
        super().__init__(function, left, StateValue(RowType(make_dataclass("Sides", sides)), seconds + keep))
        self._kept_ms = round(1000 * (seconds + keep))
        self._time_of = {LEFT: times[0], RIGHT: times[1]}

    def update(self, value: Any, tuple_: Tuple) -> Any:
        value[self.side(tuple_)].append(self._kept(tuple_))
        newest = max(row[self._time_of[side]] for side, rows in value.items() for row in rows)
        return {
            side: [row for row in rows if row[self._time_of[side]] > newest - self._kept_ms]
            for side, rows in value.items()
        }

    def emit(self, key: Any, value: Any, tuple_: Tuple, collector: StateCollector) -> None:  # noqa: ARG002
        side = self.side(tuple_)
        other = RIGHT if side == LEFT else LEFT
        at, row = tuple_[self._time_of[side]], self._row(tuple_)
        for kept in () if value is None else value[other]:  # None for a replay after the key has expired
            if abs(kept[self._time_of[other]] - at) <= self._within_ms:
                found = self._rows[other].object(kept)
                self._emit(*((row, found) if side == LEFT else (found, row)), collector)

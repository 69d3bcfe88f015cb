"""Aggregates of windows: change the value of a key and window with each tuple, or with many rows at a time."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from spout_sdk.api.tuples import Tuple
from spout_sdk.errors import TopologyError
from spout_sdk.windows.rows import WindowRows

Kind = Literal["count", "total", "greatest", "least", "mean", "fold", "collect"]
Value = dict[str, Any]
Groups = NDArray[np.intp]  # of each row, the number of its key and window, shape `(n,)`

_INTEGERS: Final = frozenset({"int", "long"})
_NUMBERS: Final = frozenset({"int", "long", "float", "double"})
_ORDERED: Final = _NUMBERS | {"string"}
_SAFE: Final = 2**62  # smaller sums fit into 64 bits


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate of the tuples of a window; create it with `count`, `total`, `greatest`, `collect` and so on.

    Attributes:
        kind: the kind of aggregate.
        field: the field of the tuples; None if it needs none.
        type: for a fold, the Avro or Python type of its value.
        initial: for a fold, the value before the first tuple.
        function: for a fold, returns the next value, given the value and the tuple.
    """

    kind: Kind
    field: str | None = None
    type: Any = None
    initial: Any = None
    function: Callable[[Any, Tuple], Any] | None = None


def count() -> Aggregate:
    """The number of tuples in a window."""
    return Aggregate("count")


def total(field: str) -> Aggregate:
    """The sum of a numeric field; null counts as 0."""
    return Aggregate("total", field)


def greatest(field: str) -> Aggregate:
    """The greatest value of a numeric or text field, without nulls."""
    return Aggregate("greatest", field)


def least(field: str) -> Aggregate:
    """The least value of a numeric or text field, without nulls."""
    return Aggregate("least", field)


def mean(field: str) -> Aggregate:
    """The mean of a numeric field, without nulls."""
    return Aggregate("mean", field)


def fold(type: Any, initial: Any, function: Callable[[Any, Tuple], Any]) -> Aggregate:  # noqa: A002 - as in `declare`
    """Any other aggregate, computed by a function; not for sessions, because their values must be merged.

    Args:
        type: the type of the value, as in `declare`.
        initial: the value before the first tuple.
        function: returns the next value, given the value and a tuple; it must not change the given value.
    """
    return Aggregate("fold", None, type, initial, function)


def collect(field: str | None = None) -> Aggregate:
    """The values of all tuples of a window, in the order of their time; they are in the state until it closes.

    Args:
        field: the field whose values are collected; by default the result is a `WindowRows`, with all fields of each
            tuple.
    """
    return Aggregate("collect", field)


class Aggregates:
    """Computes the aggregates of a bolt.

    A value is a `dict` with the `fields`. The value of a new window is the result of `first`.

    Args:
        declared: name → aggregate.
        types: for each stream that the bolt receives, field → its Avro type.

    Attributes:
        fields: field of a value → its type, as in `declare`.
        result_types: name of an aggregate → type of its result.
        can_merge: whether two values can be merged.
        collected: the fields of collected rows, with their Avro types; empty if no aggregate collects.

    Raises:
        TopologyError: if an aggregate does not fit the tuples.
    """

    def __init__(self, declared: Mapping[str, Aggregate], types: Sequence[Mapping[str, Any]]) -> None:
        self._parts = [_part(name, each, types) for name, each in declared.items()]
        self.fields: dict[str, Any] = {}
        for part in self._parts:
            for field, type_ in part.fields.items():
                if field in self.fields:
                    raise TopologyError(f"two aggregates have a field {field!r} in the state: rename one")
                self.fields[field] = type_
        self.result_types = {part.name: part.result_type for part in self._parts}
        self.can_merge = all(part.can_merge for part in self._parts)
        collecting = [part for part in self._parts if isinstance(part, _Collect)]
        self.collected = {name: type_ for part in collecting for name, type_ in part.row_types.items()}
        self._collecting = [(part.name, part.field) for part in collecting]

    def with_rows(self, results: Value, rows: WindowRows) -> Value:
        """The results of a value with those of `collect`, from the rows of the window."""
        lists = {name: rows if of is None else [row[of] for row in rows] for name, of in self._collecting}
        return {name: lists.get(name, result) for name, result in results.items()}

    def first(self) -> Value:
        value: Value = {}
        for part in self._parts:
            part.begin(value)
        return value

    def add(self, value: Value, tuple_: Tuple) -> Value:
        """Adds a tuple; changes and returns the value."""
        for part in self._parts:
            part.add(value, tuple_)
        return value

    def merge(self, one: Value, other: Value) -> Value:
        """Adds another value; changes and returns the first."""
        for part in self._parts:
            part.merge(one, other)
        return one

    def columns(self, batch: Any, rows: NDArray[np.intp], groups: Groups, size: int) -> list[Value]:
        """The value of each group of rows of a record batch.

        Args:
            batch: a `pyarrow.RecordBatch` with the fields of the tuples.
            rows: row numbers of the members of groups, of shape `(n,)`; a row may be in several groups.
            groups: the number of the group of each member, of shape `(n,)`; each group has a member.
            size: the number of groups.
        """
        columns: dict[str, list[Any]] = {}
        for part in self._parts:
            columns |= part.columns(batch, rows, groups, size)
        names = [*columns]
        return [dict(zip(names, each, strict=True)) for each in zip(*columns.values(), strict=True)]

    def results(self, value: Value) -> Value:
        """The results of a value, by name, in the order of declaration."""
        return {part.name: part.result(value) for part in self._parts}


class _Count:
    can_merge = True
    result_type: Any = "long"

    def __init__(self, name: str) -> None:
        self.name = name
        self.fields: dict[str, Any] = {name: "long"}

    def begin(self, value: Value) -> None:
        value[self.name] = 0

    def add(self, value: Value, _tuple: Tuple) -> None:
        value[self.name] += 1

    def merge(self, one: Value, other: Value) -> None:
        one[self.name] += other[self.name]

    def columns(self, _batch: Any, _rows: NDArray[np.intp], groups: Groups, size: int) -> dict[str, list[Any]]:
        return {self.name: np.bincount(groups, minlength=size).tolist()}

    def result(self, value: Value) -> Any:
        return value[self.name]


class _Total(_Count):
    def __init__(self, name: str, field: str, type_: str) -> None:
        super().__init__(name)
        self._field, self._is_integer = field, type_ in _INTEGERS
        self.result_type = "long" if self._is_integer else "double"
        self.fields = {name: self.result_type}

    def begin(self, value: Value) -> None:
        value[self.name] = 0 if self._is_integer else 0.0

    def add(self, value: Value, tuple_: Tuple) -> None:
        if (added := tuple_[self._field]) is not None:
            value[self.name] += added

    def columns(self, batch: Any, rows: NDArray[np.intp], groups: Groups, size: int) -> dict[str, list[Any]]:
        groups, values = _numbers(batch, self._field, rows, groups)
        return {self.name: _sums(values, groups, size, is_integer=self._is_integer)}


class _Mean(_Count):
    def __init__(self, name: str, field: str, is_nullable: bool) -> None:
        super().__init__(name)
        self._field = field
        self._total, self._count = f"{name}_total", f"{name}_count"
        self.fields = {self._total: "double", self._count: "long"}
        self.result_type = ["null", "double"] if is_nullable else "double"

    def begin(self, value: Value) -> None:
        value[self._total], value[self._count] = 0.0, 0

    def add(self, value: Value, tuple_: Tuple) -> None:
        if (added := tuple_[self._field]) is not None:
            value[self._total] += added
            value[self._count] += 1

    def merge(self, one: Value, other: Value) -> None:
        one[self._total] += other[self._total]
        one[self._count] += other[self._count]

    def columns(self, batch: Any, rows: NDArray[np.intp], groups: Groups, size: int) -> dict[str, list[Any]]:
        groups, values = _numbers(batch, self._field, rows, groups)
        sums = _sums(values, groups, size, is_integer=False)
        return {self._total: sums, self._count: np.bincount(groups, minlength=size).tolist()}

    def result(self, value: Value) -> Any:
        return value[self._total] / value[self._count] if value[self._count] else None


class _Extreme(_Count):
    def __init__(self, name: str, field: str, type_: str, is_nullable: bool, *, is_greatest: bool) -> None:
        super().__init__(name)
        self._field, self._type, self._is_greatest = field, type_, is_greatest
        self.result_type = ["null", type_] if is_nullable else type_
        self.fields = {name: self.result_type}

    def begin(self, value: Value) -> None:
        value[self.name] = None

    def add(self, value: Value, tuple_: Tuple) -> None:
        self._take(value, tuple_[self._field])

    def merge(self, one: Value, other: Value) -> None:
        self._take(one, other[self.name])

    def _take(self, value: Value, new: Any) -> None:
        old = value[self.name]
        if new is not None and (old is None or (new > old if self._is_greatest else new < old)):
            value[self.name] = new

    def columns(self, batch: Any, rows: NDArray[np.intp], groups: Groups, size: int) -> dict[str, list[Any]]:
        if self._type not in _NUMBERS:
            return {self.name: self._of_texts(batch.column(self._field).to_pylist(), rows, groups, size)}
        groups, values = _numbers(batch, self._field, rows, groups)
        found: list[Any] = [None] * size
        if len(groups):
            order = groups.argsort(kind="stable")
            ordered = groups[order]
            begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
            extreme = np.fmax if self._is_greatest else np.fmin
            extremes = extreme.reduceat(values[order], begins).tolist()
            for group, value in zip(ordered[begins].tolist(), extremes, strict=True):
                found[group] = value
        return {self.name: found}

    def _of_texts(self, texts: Sequence[Any], rows: NDArray[np.intp], groups: Groups, size: int) -> list[Any]:
        found = [{self.name: None} for _ in range(size)]
        for row, group in zip(rows.tolist(), groups.tolist(), strict=True):
            self._take(found[group], texts[row])
        return [each[self.name] for each in found]


class _Collect(_Count):
    """Counts the collected rows, which are no part of the value."""

    def __init__(self, name: str, field: str | None, types: Mapping[str, Any]) -> None:
        super().__init__(name)
        self.field, self.row_types = field, types
        self.result_type = None if field is None else {"type": "array", "items": types[field]}


class _Fold(_Count):
    can_merge = False

    def __init__(self, name: str, aggregate: Aggregate) -> None:
        super().__init__(name)
        self._initial, self._function = aggregate.initial, aggregate.function
        self.result_type = aggregate.type
        self.fields = {name: aggregate.type}

    def begin(self, value: Value) -> None:
        value[self.name] = self._initial

    def add(self, value: Value, tuple_: Tuple) -> None:
        value[self.name] = self._function(value[self.name], tuple_)  # type: ignore[misc]  # a fold has one


def _part(name: str, aggregate: Any, types: Sequence[Mapping[str, Any]]) -> Any:
    if not isinstance(aggregate, Aggregate):
        raise TopologyError(f"aggregate {name!r} is {aggregate!r}: use count(), total(field), greatest(field), …")
    if aggregate.kind == "count":
        return _Count(name)
    if aggregate.kind == "fold":
        if not callable(aggregate.function):
            raise TopologyError(f"aggregate {name!r} is a fold without a function: use fold(type, initial, function)")
        return _Fold(name, aggregate)
    if aggregate.kind == "collect":
        return _Collect(name, aggregate.field, _row_types(name, aggregate.field, types))
    field = aggregate.field
    if not isinstance(field, str):
        raise TopologyError(
            f"aggregate {name!r} takes the name of a field: use {aggregate.kind}({name!r}), for example"
        )
    type_, is_nullable = _type_of(name, field, types)
    allowed = _ORDERED if aggregate.kind in ("greatest", "least") else _NUMBERS
    if type_ not in allowed:
        what = "a number" if allowed is _NUMBERS else "a number or text"
        raise TopologyError(f"aggregate {name!r} takes field {field!r}, which is of type {type_}: it must be {what}")
    match aggregate.kind:
        case "total":
            return _Total(name, field, type_)
        case "mean":
            return _Mean(name, field, is_nullable)
        case _:
            return _Extreme(name, field, type_, is_nullable, is_greatest=aggregate.kind == "greatest")


def _row_types(name: str, field: str | None, types: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The types of the fields of collected rows, which are the same in all streams."""
    wanted = [{field: each.get(field)} if field is not None else dict(each) for each in types]
    if any(each != wanted[0] for each in wanted) or None in wanted[0].values():
        what = "all fields" if field is None else f"field {field!r}"
        raise TopologyError(
            f"aggregate {name!r} collects {what}, and its streams have {' and '.join(map(str, map(dict, types)))}: "
            "name a field that all of them have with one type, such as collect('field')"
        )
    return wanted[0]


def _type_of(name: str, field: str, types: Sequence[Mapping[str, Any]]) -> tuple[str, bool]:
    """The Avro type of a field in all streams, the widest if they differ, and whether the field may be null."""
    found: set[str] = set()
    is_nullable = False
    for each in types:
        if field not in each:
            raise TopologyError(
                f"aggregate {name!r} takes field {field!r}, which the tuples do not have: they have {', '.join(each)}"
            )
        branches = each[field] if isinstance(each[field], list | tuple) else [each[field]]
        is_nullable |= "null" in branches
        found |= {str(branch) for branch in branches if branch != "null"}
    if len(found) > 1 and found <= _NUMBERS:
        found = {"long"} if found <= _INTEGERS else {"double"}
    if len(found) != 1:
        raise TopologyError(
            f"aggregate {name!r} takes field {field!r}, which is of types {', '.join(sorted(found))}: it must be of one"
        )
    return found.pop(), is_nullable


def _numbers(batch: Any, field: str, rows: NDArray[np.intp], groups: Groups) -> tuple[Groups, NDArray[Any]]:
    """The groups and values of members whose field is not null."""
    column = batch.column(field)
    if column.null_count:
        is_there = column.is_valid().to_numpy(zero_copy_only=False)[rows]
        rows, groups = rows[is_there], groups[is_there]
        column = column.fill_null(0)
    return groups, column.to_numpy(zero_copy_only=False)[rows]


def _sums(values: NDArray[Any], groups: Groups, size: int, *, is_integer: bool) -> list[Any]:
    if not is_integer:
        return np.bincount(groups, weights=values, minlength=size).tolist()  # type: ignore[no-any-return]
    largest = max(abs(int(values.max())), abs(int(values.min()))) if len(values) else 0
    sums = np.zeros(size, np.int64 if largest * len(values) < _SAFE else object)
    np.add.at(sums, groups, values.astype(sums.dtype))
    return sums.tolist()

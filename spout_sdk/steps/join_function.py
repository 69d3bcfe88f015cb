"""The function of a join: what its annotations say about the rows of both sides, and what it returns."""

import collections.abc
import inspect
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from spout_sdk.api.row_members import shown_type, without_none
from spout_sdk.api.row_types import RowType
from spout_sdk.errors import TopologyError
from spout_sdk.steps.function import annotations_of, check_call, is_lambda

_NOT_A_ROW: Final = (
    *(collections.abc.Iterator, collections.abc.Generator, collections.abc.Iterable),
    *(collections.abc.Awaitable, collections.abc.Coroutine, collections.abc.AsyncIterator),
)
_TIMES: Final = ("long", "double")


@dataclass(frozen=True, slots=True)
class JoinFunction:
    """A function of a row of each side.

    Attributes:
        call: the function; returns a row or None.
        left, right: the types of the rows of the sides.
        gives: the type of the rows that it returns.
    """

    call: Callable[[Any, Any], Any]
    left: RowType[Any]
    right: RowType[Any]
    gives: RowType[Any]


class Side(typing.NamedTuple):
    """A stream that is joined: its name, and the type of its rows."""

    name: str
    row_type: RowType[Any]


def join_function(name: str, function: Callable[..., Any], left: Side, right: Side, *, has_gaps: bool) -> JoinFunction:
    """The function of a join.

    Args:
        has_gaps: whether a row of the left side may meet none of the right side.

    Raises:
        TopologyError: if its annotations do not fit the rows; the text says what to write.
    """
    where = f"join {name!r}"
    one, two = shown_type(left.row_type.type), shown_type(right.row_type.type)
    write = f"write def {name}(row: {one}, other: {two}{' | None' if has_gaps else ''}) -> Joined | None"
    if is_lambda(function):
        raise TopologyError(f"{where} is a lambda, which has no types: {write}")
    check_call(where, function, "row", "other")
    hints = annotations_of(where, function)
    sides = [*inspect.signature(function).parameters][:2]
    if missing := [each for each in (*sides, "return") if each not in hints]:
        what = "does not say what it returns" if missing == ["return"] else f"has no type of {missing[0]!r}"
        raise TopologyError(f"{where} {what}: {write}, with a type of yours as Joined")
    for side, parameter in zip((left, right), sides, strict=True):
        taken, may_be_none = without_none(hints[parameter])
        if not RowType(taken).takes(side.row_type):
            raise TopologyError(
                f"{where} takes {shown_type(taken)} as {parameter!r}, and the rows of {side.name!r} are "
                f"{shown_type(side.row_type.type)}: {write}"
            )
        if side is right and has_gaps and not may_be_none:
            raise TopologyError(
                f"{where} takes {shown_type(taken)} as {parameter!r}, and {side.name!r} may have no row of the key "
                f"yet: {write}; raise FailTupleError if it is None, so that the row is replayed"
            )
    returned = without_none(hints["return"])[0]
    if returned in (None, types.NoneType) or (typing.get_origin(returned) or returned) in _NOT_A_ROW:
        raise TopologyError(
            f"{where} returns {shown_type(hints['return'])}, and a join returns a row or None: {write}, and add a step "
            "behind it for other results"
        )
    try:
        return JoinFunction(function, left.row_type, right.row_type, RowType(returned))
    except TopologyError as error:
        raise TopologyError(f"{where}, its result: {error}") from None


def times_of(where: str, given: str | tuple[str, str], *sides: Side) -> tuple[str, str]:
    """The members with the time of either side.

    Args:
        given: a member of both, or the member of each.

    Raises:
        TopologyError: if a side has no such member, or it has another type.
    """
    names = (given, given) if isinstance(given, str) else (given[0], given[1])
    for side, name in zip(sides, names, strict=True):
        shown, known = shown_type(side.row_type.type), side.row_type.stream.field_types
        if not side.row_type.has_members or name not in known:
            raise TopologyError(
                f"{where}: {shown}, the rows of {side.name!r}, has no member {name!r} with a time: name one, or a "
                "tuple of a member of each side"
            )
        if known[name] not in _TIMES:
            raise TopologyError(
                f"{where}: {name!r} of {shown} has the type {known[name]}, which is no time: write an int, such as "
                "milliseconds since the epoch"
            )
    return names

"""A function as a step: what its annotations say about the rows that it takes and returns."""

import collections.abc
import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from spout_sdk.api.row_members import shown_type
from spout_sdk.api.row_types import RowType
from spout_sdk.errors import TopologyError
from spout_sdk.steps.context import StepContext
from spout_sdk.steps.resources import Resource, needed_resources

Returns = Literal["row", "rows", "nothing", "test", "batch", "columns"]
"""The result of a call.

- `row`: a row or None; `rows`: any number of rows; `nothing`: None;
- `test`: whether the row that it got goes on;
- `batch`: called with several rows, a list with a row or None for each, or None;
- `columns`: called with a record batch, one with as many rows, or None.
"""

_ROWS: Final = (collections.abc.Iterator, collections.abc.Generator)
_ASYNC_ROWS: Final = (collections.abc.AsyncIterator, collections.abc.AsyncGenerator)
_ITERABLES: Final = (collections.abc.Iterable, collections.abc.AsyncIterable)
_AWAITABLE: Final = (collections.abc.Awaitable, collections.abc.Coroutine)
_WRITE: Final = "write def {name}(row: Order) -> Item, with your types"


@dataclass(frozen=True, slots=True)
class StepFunction:
    """A function with the types of its rows.

    Attributes:
        name: of the function.
        call: the function.
        takes: the rows that it takes; None if any do.
        gives: the rows that it returns; None for a function that returns none.
        returns: see `Returns`.
        is_async: whether calls run at the same time, and are awaited.
        has_context: whether it takes a `StepContext` as its second argument.
        resources: parameter → what a task opens for it.
    """

    name: str
    call: Callable[..., Any]
    takes: RowType[Any] | None
    gives: RowType[Any] | None
    returns: Returns
    is_async: bool = False
    has_context: bool = False
    resources: Mapping[str, Resource] = field(default_factory=dict)


def step_function(
    name: str, function: Callable[..., Any], known: Mapping[Any, Resource], columns_of: Any = None
) -> StepFunction:
    """A function as a step.

    Args:
        known: type → resource.
        columns_of: the class that has a member for each column of the record batches that the function returns; None
            for a function of rows.

    Raises:
        TopologyError: if its annotations do not say what it takes and returns; the text says what to write.
    """
    where = f"step {name!r}"
    if is_lambda(function):
        raise TopologyError(f"{where} is a lambda, which has no types: {_WRITE.format(name=name.replace('-', '_'))}")
    hints, parameters = annotations_of(where, function), _parameters(where, function)
    row = parameters[0]
    if row.name not in hints:
        raise TopologyError(
            f"{where}: parameter {row.name!r} has no type: {_WRITE.format(name=function_name(function))}"
        )
    if "return" not in hints:
        raise TopologyError(
            f"{where} does not say what it returns: write -> None for nothing, -> Item for a row, -> Item | None, "
            "or -> Iterator[Item] for any number of rows"
        )
    others = _others(where, parameters[1:], hints)
    if _is_record_batch(hints[row.name]):
        return _column_function(where, function, hints["return"], columns_of, needed_resources(where, others, known))
    if columns_of is not None:
        raise TopologyError(
            f"{where} has returns={shown_type(columns_of)}, and takes no pyarrow.RecordBatch: leave returns= out, the "
            "annotation of its result says what it returns"
        )
    returned, is_async = hints["return"], inspect.iscoroutinefunction(_plain(function))
    origin = typing.get_origin(returned)
    if origin in _AWAITABLE:
        returned, is_async = typing.get_args(returned)[-1], True
        origin = typing.get_origin(returned)
    if origin in _ASYNC_ROWS or returned in _ASYNC_ROWS or inspect.isasyncgenfunction(_plain(function)):
        returns: Returns = "rows"
        is_async, returned = True, _element(where, returned)
    elif origin in _ROWS or returned in _ROWS:
        returns, returned = "rows", _element(where, returned)
        if _without_none(returned) is not returned:
            raise TopologyError(
                f"{where} returns an iterator of {shown_type(returned)}, and None is no row: leave these out, and "
                f"write -> Iterator[{shown_type(_without_none(returned))}]"
            )
    elif returned in (None, types.NoneType):
        returns, returned = "nothing", None
    else:
        returns, returned = "row", _without_none(returned)
    if origin in _ITERABLES or returned in _ITERABLES:
        # A row may be iterable as well, such as a text, a list or a tuple.
        raise TopologyError(f"{where} returns {shown_type(hints['return'])}: write Iterator[…] for any number of rows")
    if inspect.isgeneratorfunction(_plain(function)) and returns != "rows":
        raise TopologyError(
            f"{where} has a yield, so it returns an iterator: write -> Iterator[{shown_type(returned)}]"
        )
    taken = hints[row.name]
    if typing.get_origin(taken) is collections.abc.Sequence:
        (taken,), returns = typing.get_args(taken), "batch"
        returned = _of_batch(where, returned, is_async=is_async)
    takes = _row_type(where, f"parameter {row.name!r}", taken)
    gives = None if returned is None else _row_type(where, "its result", returned)
    has_context = bool(others) and StepContext in others.values()
    if has_context and ([*others.values()].index(StepContext) or returns == "batch"):
        raise TopologyError(f"{where}: a StepContext is the second parameter of a function of one row: move it there")
    wanted = {parameter: type_ for parameter, type_ in others.items() if type_ is not StepContext}
    resources = needed_resources(where, wanted, known, is_async=is_async)
    return StepFunction(function_name(function), function, takes, gives, returns, is_async, has_context, resources)


def _is_record_batch(annotation: Any) -> bool:
    """A program that has one has imported pyarrow; others do not wait for that."""
    pyarrow = sys.modules.get("pyarrow")
    return pyarrow is not None and annotation is pyarrow.RecordBatch


def _column_function(
    where: str, function: Callable[..., Any], returned: Any, columns_of: Any, resources: Mapping[str, Resource]
) -> StepFunction:
    """A function of a record batch."""
    is_nothing = returned in (None, types.NoneType)
    if not is_nothing and not _is_record_batch(returned):
        raise TopologyError(
            f"{where} takes a record batch and returns {shown_type(returned)}: write -> pa.RecordBatch, with a row for "
            "each row of the batch, or -> None"
        )
    if is_nothing != (columns_of is None):
        raise TopologyError(
            f"{where} returns a record batch, and its columns are not declared: write .step({function_name(function)}, "
            "returns=Row), with a class of yours as Row that has a member for each column"
            if columns_of is None
            else f"{where} returns None, and has returns={shown_type(columns_of)}: leave it out, or write -> "
            "pa.RecordBatch"
        )
    gives = None if is_nothing else _row_type(where, "returns=", columns_of)
    return StepFunction(function_name(function), function, None, gives, "columns", resources=resources)


def filter_function(name: str, function: Callable[[Any], object], row_type: RowType[Any]) -> StepFunction:
    """A function that says whether a row goes on, which may be a lambda, as a step.

    Raises:
        TopologyError: if it cannot be called with one row, or has to be awaited.
    """
    check_call(f"filter {name!r}", function, "row")
    return StepFunction(name, function, row_type, row_type, "test")


def check_call(where: str, function: Callable[..., Any], *arguments: str) -> None:
    """Raises `TopologyError` for a function that cannot be called with these arguments, or has to be awaited."""
    if inspect.iscoroutinefunction(_plain(function)) or inspect.isasyncgenfunction(_plain(function)):
        raise TopologyError(
            f"{where} is a coroutine, and is not awaited: write def, or do the work in a step before it"
        )
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        raise TopologyError(f"{where} is called with ({', '.join(arguments)}): {error}") from None
    except ValueError:  # it is not written in Python
        return


def function_name(function: Any) -> str:
    """The name of a function; of an object that is called, that of its class."""
    while isinstance(function, functools.partial):
        function = function.func
    name: str = getattr(function, "__name__", None) or type(function).__name__
    return name


def is_function_of_a_row(factory: Any) -> bool:
    """Whether a callable takes a row, as a step does: a factory of bolts needs no arguments."""
    if isinstance(factory, type):
        return False
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):  # it is not written in Python
        return False
    return any(each.default is each.empty and each.kind in _POSITIONAL for each in parameters)


_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def is_lambda(function: Any) -> bool:
    """Whether a function is a lambda, which has no types."""
    return getattr(function, "__name__", "") == "<lambda>"


def _plain(function: Any) -> Any:
    """The function that a partial or an object calls."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isfunction(function) or inspect.ismethod(function):
        return function
    return getattr(type(function), "__call__", function)  # noqa: B004 - the method, for its annotations


def annotations_of(where: str, function: Any) -> dict[str, Any]:
    """The types of the parameters of a function, and of its result.

    Raises:
        TopologyError: if one cannot be read.
    """
    try:
        return typing.get_type_hints(_plain(function))
    except Exception as error:  # NameError, and anything that the text of an annotation raises
        raise TopologyError(
            f"{where}: its annotations cannot be read ({type(error).__name__}: {error}): import the types outside of "
            "`if TYPE_CHECKING`, and define them before the topology"
        ) from error


def _parameters(where: str, function: Any) -> list[inspect.Parameter]:
    parameters = [*inspect.signature(function).parameters.values()]
    if not parameters or parameters[0].kind not in _POSITIONAL:
        raise TopologyError(f"{where} takes no row: {_WRITE.format(name=function_name(function))}")
    return parameters


def _others(where: str, parameters: list[inspect.Parameter], hints: dict[str, Any]) -> dict[str, Any]:
    """The parameters behind the row that have no default, with their types."""
    found = {}
    for each in parameters:
        if each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
            if each.name not in hints:
                raise TopologyError(f"{where}: parameter {each.name!r} has no type, and no default: add one of them")
            found[each.name] = hints[each.name]
    return found


def _of_batch(where: str, returned: Any, *, is_async: bool) -> Any:
    """The type of the rows that a function of several rows returns; None for none."""
    if is_async:
        raise TopologyError(f"{where} takes several rows, and is awaited for each row: write def, or take one row")
    if returned is None:
        return None
    if typing.get_origin(returned) not in (list, collections.abc.Sequence):
        raise TopologyError(
            f"{where} takes several rows and returns {shown_type(returned)}: write -> list[Item | None], with an "
            "element for each row, or -> None"
        )
    return _without_none(_element(where, returned))


def _element(where: str, returned: Any) -> Any:
    """The type of the rows of an iterator."""
    arguments = typing.get_args(returned)
    if not arguments:
        raise TopologyError(f"{where} returns {shown_type(returned)}: say of what, as in Iterator[Item]")
    return arguments[0]


def _without_none(returned: Any) -> Any:
    if typing.get_origin(returned) in (typing.Union, types.UnionType):
        others = [each for each in typing.get_args(returned) if each is not types.NoneType]
        if len(others) == 1:
            return others[0]
    return returned


def _row_type(where: str, what: str, type_: Any) -> RowType[Any]:
    try:
        return RowType(type_)
    except TopologyError as error:
        raise TopologyError(f"{where}, {what}: {error}") from None

"""The members of the classes of rows, and how objects are taken apart and made."""

import dataclasses
import types
import typing
from collections.abc import Callable, Sequence
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple

import msgspec
import pydantic

from spout_sdk.errors import TopologyError

# The only field of a row that has no fields of its own, such as a text.
VALUE_FIELD: Final = "value"

# The types that a codec takes and returns as they are, with their Avro types.
PLAIN: Final[dict[Any, str]] = {str: "string", int: "long", float: "double", bool: "boolean", bytes: "bytes"}


class Members(NamedTuple):
    """The members of a class, with their types, and how objects are taken apart and made."""

    members: dict[str, Any]
    values: Callable[[Any], tuple[Any, ...]]
    make: Callable[[Sequence[Any]], Any]


def members_of(type_: Any) -> Members:
    if isinstance(type_, type) and issubclass(type_, pydantic.BaseModel):
        members = {name: each.annotation for name, each in type_.model_fields.items()}
        return Members(members, _getter(attrgetter, members), lambda values: _of_pydantic(type_, members, values))
    if typing.is_typeddict(type_):
        members = typing.get_type_hints(type_)
        if missing := ", ".join(sorted(type_.__optional_keys__)):
            raise TopologyError(
                f"{shown_type(type_)} may lack {missing}, and a row of a stream has all of its fields: write a type "
                "that may be None instead of NotRequired"
            )
        return Members(members, _getter(itemgetter, members), lambda values: dict(zip(members, values, strict=True)))
    if isinstance(type_, type) and issubclass(type_, tuple) and hasattr(type_, "_fields"):
        hints = typing.get_type_hints(type_)
        members = {name: hints.get(name, Any) for name in type_._fields}
        return Members(members, tuple, type_._make)  # type: ignore[attr-defined]
    if isinstance(type_, type) and (dataclasses.is_dataclass(type_) or issubclass(type_, msgspec.Struct)):
        hints = typing.get_type_hints(type_)
        if given := [name for name, hint in hints.items() if isinstance(hint, dataclasses.InitVar)]:
            raise TopologyError(
                f"{shown_type(type_)} has the InitVar {given[0]}, which a stream cannot carry: remove it"
            )
        if dataclasses.is_dataclass(type_):
            names = [each.name for each in dataclasses.fields(type_) if each.init]
            is_keyword = any(each.kw_only for each in dataclasses.fields(type_))
        else:
            names = [*type_.__struct_fields__]
            is_keyword = True
        members = {name: hints[name] for name in names}
        if is_keyword:
            return Members(
                members,
                _getter(attrgetter, members),
                lambda values: type_(**dict(zip(members, values, strict=True))),
            )
        return Members(members, _getter(attrgetter, members), lambda values: type_(*values))
    return Members({VALUE_FIELD: type_}, lambda row: (row,), lambda values: values[0])


def _of_pydantic(type_: Any, members: dict[str, Any], values: Sequence[Any]) -> Any:
    given = dict(zip(members, values, strict=True))
    return type_.model_construct(**given)  # the members are converted, and validated, one by one


def _getter(make: Any, members: dict[str, Any]) -> Callable[[Any], tuple[Any, ...]]:
    """A function that returns the members of an object as a tuple."""
    if not members:
        return lambda _: ()
    get = make(*members)
    if len(members) > 1:
        found: Callable[[Any], tuple[Any, ...]] = get
        return found
    return lambda row: (get(row),)


def without_none(type_: Any) -> tuple[Any, bool]:
    """The type of an optional value, and True; another type, and False."""
    if typing.get_origin(type_) in (typing.Union, types.UnionType):
        others = [each for each in typing.get_args(type_) if each is not type(None)]
        if len(others) == 1 and len(others) < len(typing.get_args(type_)):
            return others[0], True
    return type_, False


def shown_type(type_: Any) -> str:
    """A type as its user has written it."""
    if isinstance(type_, type) and not typing.get_args(type_):
        return type_.__name__
    return str(type_).replace("typing.", "").replace("collections.abc.", "")

"""The members of the classes of rows: their types, how to get their values from an object, and to make an object."""

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple

import msgspec
import pydantic

from spout_sdk.errors import TopologyError

# The only field of a row that has no members, such as a text.
VALUE_FIELD: Final = "value"


class Members(NamedTuple):
    """The members of a class.

    Attributes:
        types: name → type.
        values: returns the values of an object, in order.
        make: makes an object of values.
        has_members: False for a type without members: its object is the value of the only field.
    """

    types: Mapping[str, Any]
    values: Callable[[Any], tuple[Any, ...]]
    make: Callable[[Sequence[Any]], Any]
    has_members: bool = True


def members_of(type_: Any) -> Members:
    """The members of a type; a class with parameters, such as `Page[Order]`, has members of these types.

    Raises:
        TopologyError: if a member may be missing.
    """
    generic = typing.get_origin(type_)
    if variables := _variables(generic):  # of a class of the user's, as in Page[Order]
        given, members = dict(zip(variables, typing.get_args(type_), strict=True)), members_of(generic)
        return members._replace(types={name: _filled(each, given) for name, each in members.types.items()})
    if typing.is_typeddict(type_):
        hints = typing.get_type_hints(type_)
        if missing := ", ".join(sorted(type_.__optional_keys__)):
            raise TopologyError(
                f"{shown_type(type_)} may lack {missing}, and a row of a stream has all of its fields: write a type "
                "that may be None instead of NotRequired"
            )
        return Members(hints, _getter(itemgetter, hints), lambda values: dict(zip(hints, values, strict=True)))
    if is_named_tuple(type_):
        hints = typing.get_type_hints(type_)
        return Members({name: hints.get(name, Any) for name in type_._fields}, tuple, type_._make)
    if parts := tuple_parts(type_):
        return Members({f"_{at}": each for at, each in enumerate(parts, 1)}, _of_length(len(parts)), tuple)
    if not isinstance(type_, type):
        return Members({VALUE_FIELD: type_}, lambda row: (row,), itemgetter(0), has_members=False)
    if issubclass(type_, pydantic.BaseModel):
        hints = {name: each.annotation for name, each in type_.model_fields.items()}
        # The values are those of a valid object.
        return Members(hints, _getter(attrgetter, hints), _by_name(type_.model_construct, hints))
    if issubclass(type_, msgspec.Struct):
        hints = typing.get_type_hints(type_)
        hints = {name: hints[name] for name in type_.__struct_fields__}
        return Members(hints, _getter(attrgetter, hints), _by_name(type_, hints))
    if dataclasses.is_dataclass(type_):
        return _of_dataclass(type_)
    return Members({VALUE_FIELD: type_}, lambda row: (row,), itemgetter(0), has_members=False)


def _filled(type_: Any, given: Mapping[Any, Any]) -> Any:
    """A type with types in place of its variables."""
    if isinstance(type_, typing.TypeVar):
        return given.get(type_, type_)
    variables = () if isinstance(type_, type) else _variables(type_)
    return type_[tuple(given.get(each, each) for each in variables)] if variables else type_


def _variables(type_: Any) -> tuple[Any, ...]:
    """The type variables of a generic class or type."""
    variables = getattr(type_, "__parameters__", ())
    return variables if isinstance(variables, tuple) else ()


def _of_dataclass(type_: Any) -> Members:
    hints, fields = typing.get_type_hints(type_), [each for each in dataclasses.fields(type_) if each.init]
    if given := [name for name, hint in hints.items() if isinstance(hint, dataclasses.InitVar)]:
        raise TopologyError(f"{shown_type(type_)} has the InitVar {given[0]}, which a stream cannot carry: remove it")
    members = {each.name: hints[each.name] for each in fields}
    is_keyword = any(each.kw_only for each in fields)
    make = _by_name(type_, members) if is_keyword else lambda values: type_(*values)
    return Members(members, _getter(attrgetter, members), make)


def is_named_tuple(type_: Any) -> bool:
    return isinstance(type_, type) and issubclass(type_, tuple) and hasattr(type_, "_fields")


def tuple_parts(type_: Any) -> tuple[Any, ...]:
    """The types of the parts of `tuple[A, B]`; none for another type."""
    parts = typing.get_args(type_)
    return parts if typing.get_origin(type_) is tuple and Ellipsis not in parts else ()


def _of_length(length: int) -> Callable[[Any], tuple[Any, ...]]:
    """A function that returns the parts of a tuple; it raises `ValueError` for another number of parts."""

    def parts_of(row: Any) -> tuple[Any, ...]:
        if len(row) != length:
            raise ValueError(f"a tuple of {len(row)} parts, and the type has {length}")
        return tuple(row)

    return parts_of


def plain_type(type_: Any) -> Any:
    """The type that `Annotated` and `NewType` are made of."""
    while typing.get_origin(type_) is typing.Annotated or isinstance(type_, typing.NewType):
        type_ = type_.__supertype__ if isinstance(type_, typing.NewType) else typing.get_args(type_)[0]
    return type_


def without_none(type_: Any) -> tuple[Any, bool]:
    """The type of an optional value, and True; another type, and False."""
    if typing.get_origin(type_) in (typing.Union, types.UnionType):
        others = [each for each in typing.get_args(type_) if each is not types.NoneType]
        if len(others) == 1:
            return others[0], True
    return type_, False


def shown_type(type_: Any) -> str:
    """A type as its user has written it."""
    arguments = typing.get_args(type_)
    if _variables(generic := typing.get_origin(type_)):
        return f"{generic.__name__}[{', '.join(map(shown_type, arguments))}]"
    if typing.get_origin(type_) in (typing.Union, types.UnionType):
        return " | ".join("None" if each is types.NoneType else shown_type(each) for each in arguments)
    if isinstance(type_, type) and not arguments:
        return type_.__name__
    return str(type_).replace("typing.", "").replace("collections.abc.", "")


def _by_name(make: Callable[..., Any], names: Mapping[str, Any]) -> Callable[[Sequence[Any]], Any]:
    return lambda values: make(**dict(zip(names, values, strict=True)))


def _getter(make: Any, members: Mapping[str, Any]) -> Callable[[Any], tuple[Any, ...]]:
    """A function that returns the members of an object as a tuple."""
    if not members:
        return lambda _: ()
    get = make(*members)
    if len(members) > 1:
        found: Callable[[Any], tuple[Any, ...]] = get
        return found
    return lambda row: (get(row),)

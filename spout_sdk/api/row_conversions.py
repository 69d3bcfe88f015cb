"""Conversions of members that a codec does not carry as they are, such as nested classes, enums and decimals."""

import collections.abc
import datetime
import decimal
import enum
import typing
import uuid
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

from spout_sdk.api.row_members import PLAIN, members_of, without_none


class Conversion(NamedTuple):
    """Takes an object apart into text, numbers, lists and mappings by Python's names, and makes it of them."""

    taken_apart: Callable[[Any], Any]
    made: Callable[[Any], Any]


def conversion(type_: Any, known: dict[Any, Conversion]) -> Conversion | None:
    """The conversion of a type that a stream can carry; None if its objects are passed as they are.

    Args:
        known: the conversions of classes, which may contain themselves.
    """
    while typing.get_origin(type_) is typing.Annotated or isinstance(type_, typing.NewType):
        type_ = type_.__supertype__ if isinstance(type_, typing.NewType) else typing.get_args(type_)[0]
    inner, is_optional = without_none(type_)
    if is_optional:
        of = conversion(inner, known)
        return of and _each(of, lambda convert: lambda value: None if value is None else convert(value))
    origin, arguments = typing.get_origin(type_), typing.get_args(type_)
    if type_ in (*PLAIN, datetime.datetime, datetime.date) or origin is typing.Literal:
        return None
    if isinstance(type_, type) and issubclass(type_, enum.Enum):
        return Conversion(attrgetter("value"), type_)
    if type_ in (decimal.Decimal, uuid.UUID):
        return Conversion(str, type_)
    if origin in (dict, collections.abc.Mapping):
        of = conversion(arguments[1], known)
        return of and _each(of, lambda convert: lambda value: {key: convert(each) for key, each in value.items()})
    if isinstance(type_, type) and issubclass(type_, tuple) and hasattr(type_, "_fields"):
        members = [conversion(each, known) for each in typing.get_type_hints(type_).values()]
        make: Any = type_._make  # type: ignore[attr-defined]
        return Conversion(_by_position(members, 0, list), _by_position(members, 1, make))
    if origin is tuple and arguments[-1] is not Ellipsis:
        members = [conversion(each, known) for each in arguments]
        return Conversion(_by_position(members, 0, list), _by_position(members, 1, tuple))
    if origin in (list, set, frozenset, tuple, collections.abc.Sequence):
        of = conversion(arguments[0], known)
        holder: Any = list if origin is collections.abc.Sequence else origin
        if of is None:
            return None if holder is list else Conversion(list, holder)
        taken_apart, made = of
        return Conversion(
            lambda value: [taken_apart(each) for each in value], lambda value: holder([made(each) for each in value])
        )
    if type_ not in known:
        known[type_] = _of_members(type_, known)
    found = known[type_]
    # A class that contains itself is looked up when it is used.
    return (
        Conversion(lambda value: known[type_].taken_apart(value), lambda value: known[type_].made(value))
        if (found is _UNFINISHED)
        else found
    )


_UNFINISHED: Final = Conversion(str, str)


def _of_members(type_: Any, known: dict[Any, Conversion]) -> Conversion:
    """The conversion of a class with members, to a mapping of them."""
    known[type_] = _UNFINISHED
    kind = members_of(type_)
    names = [*kind.members]
    members = [conversion(each, known) for each in kind.members.values()]
    apart, together = _by_position(members, 0, list), _by_position(members, 1, list)
    return Conversion(
        lambda value: dict(zip(names, apart(kind.values(value)), strict=True)),
        lambda value: kind.make(together([value[name] for name in names])),
    )


def _by_position(members: Sequence[Conversion | None], which: int, holder: Callable[[Any], Any]) -> Any:
    """A function that converts each of some values by the conversion at its position."""
    given = [(at, each[which]) for at, each in enumerate(members) if each is not None]

    def convert(values: Sequence[Any]) -> Any:
        made = [*values]
        for at, each in given:
            made[at] = each(made[at])
        return holder(made)

    return convert


def _each(of: Conversion, make: Callable[[Callable[[Any], Any]], Callable[[Any], Any]]) -> Conversion:
    return Conversion(make(of.taken_apart), make(of.made))

"""The fields of rows: for each Python type its Avro type, and how its objects become values of a codec, and back."""

import collections.abc
import datetime
import decimal
import enum
import types
import typing
import uuid
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

from spout_sdk.api.row_members import is_named_tuple, members_of, plain_type, shown_type, tuple_parts, without_none
from spout_sdk.errors import TopologyError

Convert = Callable[[Any], Any]

_PLAIN: Final[dict[Any, Any]] = {
    str: "string",
    int: "long",
    float: "double",
    bool: "boolean",
    bytes: "bytes",
    datetime.datetime: {"type": "long", "logicalType": "timestamp-micros"},
    datetime.date: {"type": "int", "logicalType": "date"},
}
_LISTS: Final = (list, set, frozenset, tuple, collections.abc.Sequence)


class FieldType(NamedTuple):
    """The type of a field.

    Attributes:
        avro: its Avro type.
        encode: returns the value of an object: text, numbers, lists and mappings; None if the object is the value.
        decode: returns the object of a value; None if the value is the object.
    """

    avro: Any
    encode: Convert | None = None
    decode: Convert | None = None


class FieldTypes:
    """The types of the fields of one row: a class that occurs twice is one Avro type."""

    def __init__(self) -> None:
        self._records: dict[Any, FieldType] = {}  # by class; complete once its members are known

    def of(self, type_: Any, where: str) -> FieldType:
        """The type of a field.

        Args:
            where: the field, for errors.

        Raises:
            TopologyError: if a stream cannot carry it.
        """
        type_ = plain_type(type_)
        inner, is_optional = without_none(type_)
        if is_optional:
            field = self.of(inner, where)
            return FieldType(["null", field.avro], _unless_none(field.encode), _unless_none(field.decode))
        if type_ in _PLAIN:
            return FieldType(_PLAIN[type_])
        if type_ in (decimal.Decimal, uuid.UUID):
            return FieldType("string", str, type_)
        origin, arguments = typing.get_origin(type_), typing.get_args(type_)
        if origin is typing.Literal:
            return FieldType(_scalar({type(each) for each in arguments}, type_, where))
        if isinstance(type_, type) and issubclass(type_, enum.Enum):
            return FieldType(_scalar({type(each.value) for each in type_}, type_, where), attrgetter("value"), type_)
        if is_named_tuple(type_):
            return self._tuple([*typing.get_type_hints(type_).values()], type_._make, where)
        if parts := tuple_parts(type_):
            return self._tuple(parts, tuple, where)
        if origin in _LISTS and arguments:
            return self._list(self.of(arguments[0], where), list if origin is collections.abc.Sequence else origin)
        if origin in (dict, collections.abc.Mapping) and arguments:
            return self._mapping(type_, where)
        return self._record(type_, where)

    def _tuple(self, types_: Sequence[Any], holder: Convert, where: str) -> FieldType:
        """A list with a type of its own at each position; Avro knows only that each element has one of these types."""
        fields, branches = [self.of(each, where) for each in types_], list[Any]()
        for field in fields:
            several = field.avro if isinstance(field.avro, list) else [field.avro]
            branches += [branch for branch in several if branch not in branches]
        avro = {"type": "array", "items": branches[0] if len(branches) == 1 else branches}
        return FieldType(
            avro,
            _by_position([field.encode for field in fields], list),
            _by_position([field.decode for field in fields], holder),
        )

    @staticmethod
    def _list(of: FieldType, holder: Any) -> FieldType:
        avro, encode, decode = {"type": "array", "items": of.avro}, of.encode, of.decode
        if encode is None or decode is None:
            return FieldType(avro) if holder is list else FieldType(avro, list, holder)
        return FieldType(avro, lambda value: [*map(encode, value)], lambda value: holder(map(decode, value)))

    def _mapping(self, type_: Any, where: str) -> FieldType:
        key, value_type = typing.get_args(type_)
        if key is not str:
            raise TopologyError(
                f"{where} is {shown_type(type_)}, and the keys of a mapping are text in a stream: write "
                f"dict[str, {shown_type(value_type)}], or a list of rows with the key as a member"
            )
        of = self.of(value_type, where)
        return FieldType({"type": "map", "values": of.avro}, _of_values(of.encode), _of_values(of.decode))

    def _record(self, type_: Any, where: str) -> FieldType:
        """A class with members, as a mapping of them by their names in Python."""
        known = self._records
        if type_ in known:  # a class may contain itself, so its functions are looked up when they are called
            return FieldType(known[type_].avro, self._later(type_, "encode"), self._later(type_, "decode"))
        kind = members_of(type_)
        if not kind.has_members:
            raise TopologyError(f"{where} is {shown_type(type_)}, which a stream cannot carry: {_remedy(type_)}")
        same = sum(each.__name__ == type_.__name__ for each in known)
        name = f"{type_.__name__}{same + 1 if same else ''}"
        known[type_] = FieldType(name)
        names = [*kind.types]
        fields = [self.of(each, f"field {at!r} of {shown_type(type_)}") for at, each in kind.types.items()]
        encode = _by_position([field.encode for field in fields], list)
        decode = _by_position([field.decode for field in fields], list)
        known[type_] = FieldType(
            name,
            lambda value: dict(zip(names, encode(kind.values(value)), strict=True)),
            lambda value: kind.make(decode([value[each] for each in names])),
        )
        avro = [{"name": each, "type": field.avro} for each, field in zip(names, fields, strict=True)]
        return known[type_]._replace(avro={"type": "record", "name": name, "fields": avro})

    def _later(self, type_: Any, function: str) -> Convert:
        """A function of a class that is not complete."""
        return lambda value: getattr(self._records[type_], function)(value)


def _unless_none(convert: Convert | None) -> Convert | None:
    return None if convert is None else lambda value: None if value is None else convert(value)


def _of_values(convert: Convert | None) -> Convert | None:
    return None if convert is None else lambda value: {key: convert(each) for key, each in value.items()}


def _by_position(converts: Sequence[Convert | None], holder: Convert) -> Convert:
    """A function that converts each of some values by the function at its position."""
    given = [(at, convert) for at, convert in enumerate(converts) if convert is not None]

    def convert_all(values: Sequence[Any]) -> Any:
        made = [*values]
        for at, convert in given:
            made[at] = convert(made[at])
        return holder(made)

    return convert_all


def _scalar(classes: set[type], type_: Any, where: str) -> str:
    """The Avro type of values of one class."""
    if len(classes) == 1 and (only := classes.pop()) in (str, int, float, bool, bytes):
        avro: str = _PLAIN[only]
        return avro
    raise TopologyError(
        f"{where} is {shown_type(type_)}, whose values have several types: give all of them one type, such as str"
    )


def _remedy(type_: Any) -> str:
    if type_ is Any or type_ is object:
        return "name its type, such as str or int"
    if isinstance(type_, typing.TypeVar):
        return "say what it is where the class is the type of rows, as in Page[Order]"
    if type_ in (list, dict, set, tuple, frozenset):
        return f"say what it has, as in {type_.__name__}[{'str, int' if type_ is dict else 'str'}]"
    if typing.get_origin(type_) in (typing.Union, types.UnionType):
        return "choose one type, or make each a member of its own that may be None"
    if type_ is datetime.time or type_ is datetime.timedelta:
        return "write a datetime, a float of seconds or text"
    return (
        "make it a dataclass, or use str, int, float, bool, bytes, datetime, Decimal, an enum, a list or a dict of them"
    )

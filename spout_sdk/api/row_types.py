"""Row types: a class of Python as the fields of a stream, and its objects as the values of tuples."""

import collections.abc
import datetime
import decimal
import enum
import types
import typing
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar, cast

import msgspec
import pydantic

from spout_sdk.api.row_conversions import Conversion, conversion
from spout_sdk.api.row_members import PLAIN, VALUE_FIELD, members_of, shown_type, without_none
from spout_sdk.api.tuples import InputStream
from spout_sdk.errors import TopologyError
from tuple_tree.fields import plain
from tuple_tree.streams import Codec as StreamCodec
from tuple_tree.streams import Stream, declare

T = TypeVar("T")


_DATETIME: Final = {"type": "long", "logicalType": "timestamp-micros"}
_DATE: Final = {"type": "int", "logicalType": "date"}


class RowType(Generic[T]):
    """A class, as the type of the rows of a stream.

    A dataclass, `NamedTuple`, `TypedDict`, `msgspec.Struct` or pydantic model has a field for each member. A row of
    another type, such as a text, a list or a tuple, is the single field `value`.

    Attributes:
        type: the class.
        stream: the declaration of the stream.
        cls: the class of the objects.
        has_members: whether the fields are members of the objects; otherwise the object is the only field.

    Raises:
        TopologyError: if a stream cannot carry a member; it names class, member and remedy.
    """

    def __init__(self, type_: type[T], codec: StreamCodec = "arrow") -> None:
        self.type = type_
        if without_none(type_)[1]:
            raise TopologyError(
                f"{shown_type(type_)} may be None, and None is no row: write a class with a member that may be None"
            )
        self.cls: Any = _class_of(type_)
        kind = members_of(type_)
        self.has_members = kind.members != {VALUE_FIELD: type_}
        fields: dict[str, Any] = {}
        names: dict[Any, str] = {}
        for name, member in kind.members.items():
            fields[name] = _avro(member, f"field {name!r} of {shown_type(type_)}", names)
        if not fields:
            raise TopologyError(f"{shown_type(type_)} has no fields: a row of a stream has at least one")
        try:
            self.stream: Stream = declare(fields, codec=codec)
        except ValueError as error:
            raise TopologyError(f"{shown_type(type_)} cannot be the type of a stream's rows: {error}") from error
        self._of, self._make = kind.values, kind.make
        made: dict[Any, Conversion] = {}
        found = enumerate(conversion(each, made) for each in kind.members.values())
        self._given = [(at, each) for at, each in found if each is not None]

    def all_values(self, rows: Sequence[T]) -> list[tuple[Any, ...]]:
        """The values of each of some rows."""
        if not (self.has_members or self._given):
            return [*zip(rows, strict=True)]
        return [*map(self.values if self._given else self._of, rows)]

    def all_rows(self, values: Sequence[Sequence[Any]]) -> list[T]:
        """The row with each of some values; raises as `row`."""
        if not (self.has_members or self._given):
            return [row for (row,) in values]
        return [*map(self.row if self._given else self._make, values)]

    def values(self, row: T) -> tuple[Any, ...]:
        """The values of a row, one for each field."""
        values = self._of(row)
        if not self._given:
            return values
        made = [*values]
        for at, each in self._given:
            made[at] = each.taken_apart(made[at])
        return tuple(made)

    def row(self, values: Sequence[Any]) -> T:
        """The row with these values; raises an exception of any type if a value does not fit its member."""
        if self._given:
            made = [*values]
            for at, each in self._given:
                made[at] = each.made(made[at])
            values = made
        row: T = self._make(values)
        return row

    def takes(self, other: "RowType[Any]") -> bool:
        """Whether rows of another type are rows of this type."""
        if self.type == other.type:
            return True
        one, two = self.type, other.type
        return isinstance(one, type) and isinstance(two, type) and not typing.is_typeddict(one) and _is_sub(two, one)

    def checked(self, row: Any) -> T:
        """The row, if it is an object of the type; raises `TypeError` if it is not."""
        if isinstance(row, self.cls) and not (isinstance(row, bool) and self.cls is not bool):
            return cast(T, row)
        number = plain(row)
        if number.__class__ is self.cls or (self.cls is float and number.__class__ is int):
            return cast(T, self.cls(number))
        raise TypeError(f"a {type(row).__name__} is not a {shown_type(self.type)}")

    def __repr__(self) -> str:
        return f"RowType({shown_type(self.type)})"


def maker(
    declared: Mapping[tuple[str, str], RowType[Any]], takes: RowType[Any] | None, stream: InputStream
) -> Callable[[Sequence[Any]], Any]:
    """A function that makes the rows of a stream from values.

    They have the type that the stream was declared with; otherwise they are rows that `takes` describes, and the
    stream has fields of these names.
    """
    if (of_stream := declared.get((stream.component, stream.stream))) is not None:
        return of_stream.row
    if takes is None:
        raise AssertionError("the builder rejects a step whose rows have no type")
    names = takes.stream.field_names
    if names == tuple(stream.fields):
        return takes.row
    places = [stream.fields[name] for name in names]
    return lambda values: takes.row([values[place] for place in places])


def json_decoder(type_: Any) -> Callable[[bytes], Any]:
    """A function that decodes JSON as a type; raises `msgspec.ValidationError` and `msgspec.DecodeError`."""
    decode: Callable[[bytes], Any] = msgspec.json.Decoder(type_, dec_hook=_from_builtin).decode
    return decode


def json_encoder() -> Callable[[Any], bytes]:
    """A function that encodes rows as JSON."""
    return msgspec.json.Encoder(enc_hook=_to_builtin).encode


def _class_of(type_: Any) -> Any:
    """The class of the objects of a type."""
    while typing.get_origin(type_) is typing.Annotated or isinstance(type_, typing.NewType):
        type_ = type_.__supertype__ if isinstance(type_, typing.NewType) else typing.get_args(type_)[0]
    if typing.get_origin(type_) is typing.Literal:
        return type(typing.get_args(type_)[0])
    return dict if typing.is_typeddict(type_) else typing.get_origin(type_) or type_


def _is_sub(one: type, other: type) -> bool:
    try:
        return issubclass(one, other)
    except TypeError:  # of list[int]
        return False


def _avro(type_: Any, where: str, names: dict[Any, str]) -> Any:
    """The Avro type of a member; `names` has those of classes that were defined before."""
    while typing.get_origin(type_) is typing.Annotated:
        type_ = typing.get_args(type_)[0]
    inner, is_optional = without_none(type_)
    if is_optional:
        return ["null", _avro(inner, where, names)]
    if isinstance(type_, typing.NewType):
        return _avro(type_.__supertype__, where, names)
    if type_ in PLAIN:
        return PLAIN[type_]
    if type_ is datetime.datetime:
        return dict(_DATETIME)
    if type_ is datetime.date:
        return dict(_DATE)
    if type_ in (decimal.Decimal, uuid.UUID):
        return "string"
    origin, arguments = typing.get_origin(type_), typing.get_args(type_)
    if origin is typing.Literal:
        return _scalar({type(each) for each in arguments}, type_, where)
    if isinstance(type_, type) and issubclass(type_, enum.Enum):
        return _scalar({type(each.value) for each in type_}, type_, where)
    if origin in (list, set, frozenset, collections.abc.Sequence) and arguments:
        return {"type": "array", "items": _avro(arguments[0], where, names)}
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return {"type": "array", "items": _avro(arguments[0], where, names)}
    if isinstance(type_, type) and issubclass(type_, tuple) and hasattr(type_, "_fields"):
        arguments = tuple(typing.get_type_hints(type_).values())
        origin = tuple
    if origin is tuple and arguments:
        # msgspec makes lists of tuples, whose elements may have any of these types.
        branches: list[Any] = []
        for each in arguments:
            made = _avro(each, where, names)
            branches += [part for part in (made if isinstance(made, list) else [made]) if part not in branches]
        return {"type": "array", "items": branches[0] if len(branches) == 1 else branches}
    if origin in (dict, collections.abc.Mapping) and arguments:
        if arguments[0] is not str:
            raise TopologyError(
                f"{where} is {shown_type(type_)}, and the keys of a mapping are text in a stream: write "
                f"dict[str, {shown_type(arguments[1])}], or a list of rows with the key as a member"
            )
        return {"type": "map", "values": _avro(arguments[1], where, names)}
    members = members_of(type_).members
    if VALUE_FIELD in members and members[VALUE_FIELD] is type_:
        raise TopologyError(f"{where} is {shown_type(type_)}, which a stream cannot carry: {_remedy(type_)}")
    if type_ in names:
        return names[type_]  # an Avro type is defined once
    same = sum(each.__name__ == type_.__name__ for each in names)
    names[type_] = f"{type_.__name__}{same + 1 if same else ''}"
    fields = [
        {"name": name, "type": _avro(member, f"field {name!r} of {shown_type(type_)}", names)}
        for name, member in members.items()
    ]
    return {"type": "record", "name": names[type_], "fields": fields}


def _scalar(classes: set[type], type_: Any, where: str) -> str:
    """The Avro type of values of one class."""
    if len(classes) == 1 and (only := classes.pop()) in PLAIN:
        return PLAIN[only]
    raise TopologyError(
        f"{where} is {shown_type(type_)}, whose values have several types: give all of them one type, such as str"
    )


def _remedy(type_: Any) -> str:
    if type_ is Any or type_ is object:
        return "name its type, such as str or int"
    if type_ in (list, dict, set, tuple, frozenset):
        return f"say what it has, as in {type_.__name__}[{'str, int' if type_ is dict else 'str'}]"
    if typing.get_origin(type_) in (typing.Union, types.UnionType):
        return "choose one type, or make each a member of its own that may be None"
    if type_ is datetime.time or type_ is datetime.timedelta:
        return "write a datetime, a float of seconds or text"
    return (
        "make it a dataclass, or use str, int, float, bool, bytes, datetime, Decimal, an enum, a list or a dict of them"
    )


def _to_builtin(value: Any) -> Any:
    """For msgspec: an object of a type that it does not know."""
    if isinstance(value, pydantic.BaseModel):
        return value.model_dump(mode="json")
    raise NotImplementedError(f"objects of type {type(value).__name__} are not supported")


def _from_builtin(type_: Any, value: Any) -> Any:
    """For msgspec: the object of a type that it does not know."""
    if isinstance(type_, type) and issubclass(type_, pydantic.BaseModel):
        if isinstance(value, type_):
            return value
        try:
            return type_.model_validate(value)
        except pydantic.ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
            raise ValueError(f"{first['msg']} - at `${path}`") from error
    raise NotImplementedError(f"objects of type {type_!r} are not supported")

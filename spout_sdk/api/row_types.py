"""Row types: a class of Python as the fields of a stream, and its objects as the values of tuples."""

import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar, cast

import msgspec
import pydantic

from spout_sdk.api.row_fields import FieldTypes
from spout_sdk.api.row_members import members_of, plain_type, shown_type, without_none
from spout_sdk.api.tuples import InputStream
from spout_sdk.errors import TopologyError
from tuple_tree.fields import plain
from tuple_tree.streams import StreamDeclaration, declare

T = TypeVar("T")


class RowType(Generic[T]):
    """A class, as the type of the rows of a stream.

    A dataclass, `NamedTuple`, `TypedDict`, `msgspec.Struct` or pydantic model has a field for each member, and a tuple
    such as `tuple[str, int]` the fields `_1` and `_2`, as in Spark. A row of another type, such as a text or a list,
    is the single field `value`.

    Attributes:
        type: the class.
        stream: the declaration of the stream.
        cls: the class of the objects.
        has_members: whether the fields are members of the objects; otherwise the object is the only field.

    Raises:
        TopologyError: if a stream cannot carry a member; it names class, member and remedy.
    """

    def __init__(self, type_: type[T]) -> None:
        self.type = type_
        if without_none(type_)[1]:
            raise TopologyError(
                f"{shown_type(type_)} may be None, and None is no row: write a class with a member that may be None"
            )
        self.cls: Any = _class_of(type_)
        kind, types = members_of(plain_type(type_)), FieldTypes()
        self.has_members = kind.has_members
        if not kind.types:
            raise TopologyError(f"{shown_type(type_)} has no fields: a row of a stream has at least one")
        where = f"of {shown_type(type_)}"
        fields = {name: types.of(each, f"field {name!r} {where}") for name, each in kind.types.items()}
        try:
            self.stream: StreamDeclaration = declare({name: field.avro for name, field in fields.items()})
        except ValueError as error:
            raise TopologyError(f"{shown_type(type_)} cannot be the type of a stream's rows: {error}") from error
        self._values, self._make = kind.values, kind.make
        # The functions of the fields whose values are not their objects, by position.
        converted = [(at, field) for at, field in enumerate(fields.values()) if field.encode is not None]
        self._encodes = [(at, field.encode) for at, field in converted]
        self._decodes = [(at, field.decode) for at, field in converted]

    def values(self, row: T) -> tuple[Any, ...]:
        """The values of a row, one for each field."""
        values = self._values(row)
        return tuple(_converted(values, self._encodes)) if self._encodes else values

    def all_values(self, rows: Sequence[T]) -> list[tuple[Any, ...]]:
        """The values of each of some rows."""
        if not (self.has_members or self._encodes):
            return [*zip(rows, strict=True)]
        return [*map(self.values if self._encodes else self._values, rows)]

    def row(self, values: Sequence[Any]) -> T:
        """The row with these values; raises an exception of any type if a value does not fit its member."""
        row: T = self._make(_converted(values, self._decodes) if self._decodes else values)
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


def _converted(values: Sequence[Any], converts: Sequence[tuple[int, Any]]) -> list[Any]:
    made = [*values]
    for at, convert in converts:
        made[at] = convert(made[at])
    return made


def _class_of(type_: Any) -> Any:
    """The class of the objects of a type."""
    type_ = plain_type(type_)
    if typing.get_origin(type_) is typing.Literal:
        return type(typing.get_args(type_)[0])
    of = typing.get_origin(type_) or type_
    return dict if typing.is_typeddict(of) else of


def _is_sub(one: type, other: type) -> bool:
    try:
        return issubclass(one, other)
    except TypeError:  # of list[int]
        return False


def _to_builtin(value: Any) -> Any:
    """The hook of msgspec for objects that it does not know; `NotImplementedError` makes it report the type."""
    if isinstance(value, pydantic.BaseModel):
        return value.model_dump(mode="json")
    raise NotImplementedError(f"objects of type {type(value).__name__} are not supported")


def _from_builtin(type_: Any, value: Any) -> Any:
    """The hook of msgspec for types that it does not know, as `_to_builtin`."""
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

"""Fields of the values of a state, and values as JSON: an encoder, and a quick writer of common types."""

import json
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import fastavro
from fastavro.validation import validate

from tuple_tree.fields import Column, is_text, plain
from tuple_tree.streams import Field, Values

_SHOWN_CHARACTERS: Final = 80


def _json_value(value: Any) -> Any:
    if (made := plain(value)) is not value:
        return made
    raise TypeError(f"JSON has no type for a {type(value).__name__}: declare the state with codec avro")


JSON: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_json_value)
_WRITTEN: Final = {
    "int": "{{{0}}}",
    "long": "{{{0}}}",
    "double": "{{{0}!r}}",
    "float": "{{{0}!r}}",
    "boolean": "{{'true' if {0} else 'false'}}",
    "string": "{{quoted({0})}}",
}
"""Avro type → the part of an f-string that writes a value of it as JSON."""
_FINITE: Final = ("double", "float")


def quick_writer(
    fields: Sequence[Field], *, is_single: bool, is_ascii: bool = False
) -> Callable[[Values], str | None] | None:
    """A function that writes values that fit as they are as JSON, and returns None for others; None for other types.

    It is one expression, because it is evaluated for each change. With `is_ascii` it escapes other characters.
    """
    if not all(isinstance(field.type, str) and field.type in _WRITTEN for field in fields):
        return None
    names = [f"row[{at}]" for at in range(len(fields))]
    tests = [Column(field.name, field.type).fits(name) for field, name in zip(fields, names, strict=True)]
    tests += [f"{name} - {name} == 0" for field, name in zip(fields, names, strict=True) if field.type in _FINITE]
    members = [_WRITTEN[cast(str, field.type)].format(name) for field, name in zip(fields, names, strict=True)]
    if is_single:
        body = members[0]
    else:
        pairs = (f'"{field.name}":{member}' for field, member in zip(fields, members, strict=True))
        body = "{{" + ",".join(pairs) + "}}"
    source = f"lambda row: f'''{body}''' if {' and '.join(tests)} else None"
    quoted = json.encoder.encode_basestring_ascii if is_ascii else json.encoder.encode_basestring
    scope = {"is_text": is_text, "quoted": quoted}
    return cast(Callable[[Values], str | None], eval(source, scope))  # noqa: S307


def number_check(fields: Sequence[Field], *, is_single: bool) -> Callable[[Any], bool] | None:
    """A function that returns whether a value of numbers and booleans fits as it is; None for other types.

    Its payload is short then, and can be made later, for the last of several changes.
    """
    if not all(isinstance(field.type, str) and field.type in _WRITTEN and field.type != "string" for field in fields):
        return None
    names = ["value"] if is_single else [f"value[{field.name!r}]" for field in fields]
    tests = [] if is_single else [f"value.__class__ is dict and value.keys() == { {field.name for field in fields}!r}"]
    tests += [Column(field.name, field.type).fits(name) for field, name in zip(fields, names, strict=True)]
    tests += [f"{name} - {name} == 0" for field, name in zip(fields, names, strict=True) if field.type in _FINITE]
    return cast(Callable[[Any], bool], eval(f"lambda value: {' and '.join(tests)}"))  # noqa: S307


class ValueField:
    def __init__(self, name: str, kind: Any, codec: str) -> None:
        self._name, self._kind, self._is_json = name, kind, codec == "json"
        self._column = Column(name, kind)
        self._schema = fastavro.parse_schema(kind)

    def checked(self, value: Any) -> Any:
        """The value as the codec takes it. Raises `TypeError`."""
        try:
            value = self._column.checked(value)
            if not validate(value, self._schema, raise_errors=False):
                raise TypeError("it is of another type")
            if self._is_json:
                JSON.encode(value)
        except Exception as error:  # fastavro raises many
            raise TypeError(
                f"field {self._name!r} of the state is declared as {type_name(self._kind)}, and {as_text(value)} "
                f"({type(value).__name__}) does not fit: {error}"
            ) from error
        return value


def as_text(value: Any) -> str:
    """A value or bytes for an error, shortened."""
    text = repr(value.decode(errors="backslashreplace") if isinstance(value, bytes) else value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}… ({len(text):,} characters)"


def type_name(kind: Any) -> str:
    return kind if isinstance(kind, str) else json.dumps(kind)

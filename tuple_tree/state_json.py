"""Values of a state as JSON: an encoder, and a quick writer of common types."""

import json
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from tuple_tree.fields import Column, plain
from tuple_tree.streams import Field, Values


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


def quick_writer(fields: Sequence[Field], *, is_single: bool) -> Callable[[Values], str | None] | None:
    """A function that writes values that fit as they are as JSON, and returns None for others; None for other types.

    It is one expression, because it is evaluated for each change.
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
    scope = {"is_text": _is_text, "quoted": json.encoder.encode_basestring}
    return cast(Callable[[Values], str | None], eval(source, scope))  # noqa: S307


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True

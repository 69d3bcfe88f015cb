"""Fields: which values the Avro type of a field takes, by one rule for all codecs; `arrow_packs` has their columns."""

import datetime
import io
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, Final, NamedTuple

import fastavro
import numpy as np

from tuple_tree.streams import Values

_TOO_LARGE: Final = float(2**128 - 2**103)  # from here on a number becomes infinite in 32 bits
_FITS_FLOAT: Final = f"{{0}}.__class__ is float and (-{_TOO_LARGE!r} < {{0}} < {_TOO_LARGE!r} or {{0}} - {{0}} != 0)"
_TIMESTAMPS: Final = ("timestamp-millis", "timestamp-micros")


class _Type(NamedTuple):
    """The column of an Avro type."""

    arrow: str  # the name of its Arrow type
    classes: Any  # of the values that it takes
    fits: str = "False"  # an expression: whether it takes a value as it is


_TYPES: Final[dict[Any, _Type]] = {
    "string": _Type("string", str, "{0}.__class__ is str and ({0}.isascii() or is_text({0}))"),
    "bytes": _Type("binary", bytes, "{0}.__class__ is bytes"),
    "int": _Type("int32", Integral, "{0}.__class__ is int and -0x80000000 <= {0} <= 0x7fffffff"),
    "long": _Type("int64", Integral, "{0}.__class__ is int and -0x8000000000000000 <= {0} <= 0x7fffffffffffffff"),
    "float": _Type("float", Real, _FITS_FLOAT),
    "double": _Type("double", Real, "{0}.__class__ is float"),
    "boolean": _Type("bool", bool, "{0}.__class__ is bool"),
    ("long", "timestamp-millis"): _Type("timestamp[ms, tz=UTC]", datetime.datetime),
    ("long", "timestamp-micros"): _Type("timestamp[us, tz=UTC]", datetime.datetime),
    ("int", "date"): _Type("date32[day]", datetime.date),
}
_BITS: Final = {"int32": 32, "int64": 64}
_AVRO_BODY: Final = _Type("binary", bytes)


def _type_of(avro_type: Any) -> _Type | None:
    if isinstance(avro_type, dict):
        logical = avro_type.get("logicalType")
        avro_type = avro_type.get("type") if logical is None else (avro_type.get("type"), logical)
    return _TYPES.get(avro_type) if isinstance(avro_type, str | tuple) else None


class Column:
    """The values of one field; in a column, a value whose Avro type Arrow lacks is an Avro body of its own."""

    def __init__(self, name: str, avro_type: Any) -> None:
        self.name = name
        type_ = _type_of(avro_type)
        self._nullable = False
        if type_ is None and isinstance(avro_type, list) and len(avro_type) == 2 and "null" in avro_type:
            type_ = _type_of(next(branch for branch in avro_type if branch != "null"))
            self._nullable = type_ is not None
        self._avro = fastavro.parse_schema(avro_type) if type_ is None else None
        self._type = type_ or _AVRO_BODY
        self._limits = _limits(avro_type if self._avro is None else self._avro, {})

    @property
    def is_avro(self) -> bool:
        """Whether its values are Avro bodies, because Arrow lacks the type."""
        return self._avro is not None

    def value(self, value: Any) -> Any:
        """The value as a row of the column has it; raises as `checked`."""
        value = self.checked(value)
        return value if self._avro is None else avro_body(self._avro, value)

    def checked(self, value: Any) -> Any:
        """The value as one of Python's own types.

        Raises `TypeError` if the field does not take its type; `OverflowError`, `UnicodeEncodeError` or one of
        fastavro's, if it does not fit otherwise. A type that Arrow lacks is left to fastavro, but for its limits.
        """
        value = plain(value)
        if value is None and self._nullable:
            return None
        name, (arrow, classes, _) = self.name, self._type
        if self._avro is None and (
            not isinstance(value, classes) or (isinstance(value, bool) and classes in (Integral, Real))
        ):
            raise TypeError(f"field {name!r} takes {arrow}, not {type(value).__name__}")
        self.check_limits(value)
        if self._avro is not None:
            return value
        if classes is Integral:
            number, limit = int(value), 1 << _BITS[arrow] - 1
            if not -limit <= number < limit:
                raise OverflowError(f"field {name!r} takes {arrow}, and {number} does not fit")
            return number
        if classes is Real:
            return float(value)
        if classes is str:
            value.encode()
        return value

    def check_limits(self, value: Any) -> None:
        """Raises an error for what an encoder changes without one, at any depth of a value.

        That is a datetime without a time zone, and a number that is too large for a 32-bit float.
        """
        if self._limits is not None and (flaw := self._limits(value)):
            error, text = flaw
            raise error(f"field {self.name!r} {text}")

    def fits(self, value: str, *, by_class: bool = False) -> str:
        """An expression: whether the column takes a value as it is; with `by_class`, only the class is checked."""
        fits = self._type.fits.format(value)
        if by_class:
            fits = fits.partition(" and ")[0]
        return f"({value} is None or {fits})" if self._nullable else fits


def avro_body(schema: Any, value: Any) -> bytes:
    """A value as Avro, without its schema. Raises an error of fastavro if it does not fit."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    return out.getvalue()


def read_avro_body(schema: Any, body: bytes) -> Any:
    """The value. Raises a `ValueError` if bytes follow it, and for others EOFError, IndexError and more of fastavro."""
    stream = io.BytesIO(body)
    value = fastavro.schemaless_reader(stream, schema, None)
    if stream.tell() != len(body):
        raise ValueError(f"{len(body) - stream.tell()} bytes follow the value")
    return value


def plain(value: Any) -> Any:
    """A scalar of numpy as the value of Python that it is; everything else as it is."""
    if isinstance(value, np.timedelta64):  # numpy calls it an integer
        raise TypeError("a numpy.timedelta64 is not a number: pass one, in the unit that the field has")
    if isinstance(value, np.floating):
        return float(value)
    return value.item() if isinstance(value, np.integer | np.bool_ | np.character) else value


def is_text(value: str) -> bool:
    """Whether UTF-8 can carry it: a text may have half of a surrogate pair."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def all_fit(columns: Sequence[Column], *, by_class: bool = False) -> Callable[[Values], bool]:
    """Makes a function that checks whether a tuple is a row as it is.

    Its source is generated for the columns, because it is called for each tuple. With `by_class`, it checks only the
    classes of the values, which is enough if nothing is encoded.
    """
    values = [f"value_{at}" for at in range(len(columns))]
    tests = [column.fits(value, by_class=by_class) for column, value in zip(columns, values, strict=True)]
    source = f"""
def fits(row):
    try:
        {"".join(f"{value}, " for value in values) or "()"} = row
    except ValueError:
        return False
    return {" and ".join(tests) or "True"}
"""
    made: dict[str, Any] = {"is_text": is_text}
    exec(source, made)  # noqa: S102
    fits: Callable[[Values], bool] = made["fits"]
    return fits


Flaw = tuple[type[Exception], str]
Limits = Callable[[Any], Flaw | None]
NAIVE: Final = (
    "takes a time with a time zone, and this one has none: a naive datetime is another time in each place, so pass "
    "datetime.now(UTC), or value.replace(tzinfo=UTC) if it is UTC"
)
INFINITE: Final = "takes a 32-bit float, and the number is too large for it: declare a double"


def _limits(avro_type: Any, named: dict[str, list[Limits | None]]) -> Limits | None:
    match avro_type:
        case "float" | {"type": "float"}:
            return _is_infinite
        case {"logicalType": logical} if logical in _TIMESTAMPS:
            return _is_naive
        case str():
            known = named.get(avro_type)
            return None if known is None else lambda value: known[0] and known[0](value)
        case list():
            return _first([_limits(branch, named) for branch in avro_type])
        case {"type": "array", "items": items}:
            return _in_each(_limits(items, named), list, iter)
        case {"type": "map", "values": values}:
            return _in_each(_limits(values, named), Mapping, lambda value: value.values())
        case {"type": "record" | "error", "name": name, "fields": fields}:
            own: list[Limits | None] = [None]
            named[name] = own
            members = {field["name"]: _limits(field["type"], named) for field in fields}
            own[0] = _in_members({member: check for member, check in members.items() if check is not None})
            return own[0]
    return None


def _is_naive(value: Any) -> Flaw | None:
    return (TypeError, NAIVE) if isinstance(value, datetime.datetime) and value.utcoffset() is None else None


def _is_infinite(value: Any) -> Flaw | None:
    return (
        (OverflowError, INFINITE)
        if isinstance(value, Real) and _TOO_LARGE <= abs(float(value)) < float("inf")
        else None
    )


def _first(checks: Sequence[Limits | None]) -> Limits | None:
    kept = [check for check in checks if check is not None]

    def check(value: Any) -> Flaw | None:
        if isinstance(value, tuple) and len(value) == 2:  # the name of a branch, and its value
            _, value = value
        return next((flaw for each in kept if (flaw := each(value))), None)

    return check if kept else None


def _in_each(check: Limits | None, kind: Any, items: Callable[[Any], Any]) -> Limits | None:
    if check is None:
        return None
    return lambda value: (
        next((flaw for each in items(value) if (flaw := check(each))), None) if isinstance(value, kind) else None
    )


def _in_members(members: Mapping[str, Limits]) -> Limits | None:
    def check(value: Any) -> Flaw | None:
        if not isinstance(value, Mapping):
            return None
        return next((flaw for name, each in members.items() if name in value and (flaw := each(value[name]))), None)

    return check if members else None

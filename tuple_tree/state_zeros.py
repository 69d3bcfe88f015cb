"""Initial values of a state: zeros, by their Avro types."""

import datetime
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_PRIMITIVES: Final[dict[str, Callable[[], Any]]] = {
    "null": lambda: None,
    "boolean": bool,
    "int": int,
    "long": int,
    "float": float,
    "double": float,
    "string": str,
    "bytes": bytes,
    "array": list,
    "map": dict,
}
_LOGICAL: Final[dict[str, Callable[[], Any]]] = {
    "timestamp-millis": lambda: _EPOCH,
    "timestamp-micros": lambda: _EPOCH,
    "date": _EPOCH.date,
    "time-millis": datetime.time,
    "time-micros": datetime.time,
    "decimal": Decimal,
    "uuid": lambda: uuid.UUID(int=0),
}


def zero_of(kind: Any) -> Callable[[], Any]:
    """A function that makes the zero of an Avro type: null where it is allowed, else of a union's first type.

    The zero of an enum is its default, or its first symbol.
    """
    if isinstance(kind, list):
        return zero_of("null" if "null" in kind else kind[0])
    if isinstance(kind, str):
        return _PRIMITIVES.get(kind, lambda: None)
    match kind:
        case {"logicalType": logical} if logical in _LOGICAL:
            return _LOGICAL[logical]
        case {"type": "enum", "symbols": symbols}:
            first = kind.get("default", symbols[0])
            return lambda: first
        case {"type": "fixed", "size": size}:
            return lambda: bytes(size)
        case {"type": "record" | "error", "fields": fields}:
            zeros = {field["name"]: zero_of(field["type"]) for field in fields}
            return lambda: {name: zero() for name, zero in zeros.items()}
    return zero_of(kind["type"])

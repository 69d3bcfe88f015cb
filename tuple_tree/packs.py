"""Packs: the values of one or more tuples of a stream as the value of one record.

A pack is the encapsulated record batch message of Arrow's IPC format, without its schema: a column for each field of
the stream, whose Arrow type follows from the field's Avro type. `schemas/README.md` has the table.
"""

import datetime
import io
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, Final

import fastavro
import numpy as np
import pyarrow as pa

from tuple_tree.errors import WireError
from tuple_tree.streams import Stream, Values

MAX_ROWS: Final = 1_000
"""Tuples of a pack at most."""

MAX_BYTES: Final = 256 * 1024
"""Bytes of a pack of more than one tuple at most."""

_PRIMITIVES: Final[dict[Any, tuple[Any, Any]]] = {
    "string": (pa.string(), str),
    "bytes": (pa.binary(), bytes),
    "int": (pa.int32(), Integral),
    "long": (pa.int64(), Integral),
    "float": (pa.float32(), Real),
    "double": (pa.float64(), Real),
    "boolean": (pa.bool_(), (bool, np.bool_)),
}
_INTEGERS: Final = {pa.int32(): range(-(2**31), 2**31), pa.int64(): range(-(2**63), 2**63)}
_LOGICAL: Final[dict[Any, tuple[Any, Any]]] = {
    ("long", "timestamp-millis"): (pa.timestamp("ms", "UTC"), datetime.datetime),
    ("long", "timestamp-micros"): (pa.timestamp("us", "UTC"), datetime.datetime),
    ("int", "date"): (pa.date32(), datetime.date),
}
_KNOWN_CLASSES: Final = 1_000
"""Combinations of classes that are remembered; whoever emits more of them pays for a conversion each time."""

Test = Callable[[Any], bool]


class _Column:
    """How the values of one field go into a column.

    Attributes:
        field: of the Arrow schema.
        embedded: whether each value is an Avro body of its own, because Arrow has no type that says the same.
    """

    def __init__(self, name: str, avro_type: Any) -> None:
        found = _arrow_type(avro_type)
        self._nullable = False
        if found is None and isinstance(avro_type, list) and len(avro_type) == 2 and "null" in avro_type:
            found = _arrow_type(next(branch for branch in avro_type if branch != "null"))
            self._nullable = found is not None
        self.embedded = found is None
        self._avro = fastavro.parse_schema(avro_type) if found is None else None
        type_, classes = found or (pa.binary(), bytes)
        self._classes: Any = classes
        self.field = pa.field(name, type_, nullable=self._nullable)

    def value(self, value: Any) -> Any:
        """The value as the column takes it.

        Raises:
            TypeError: if it is of another type.
            ValueError: if it is outside of the type's range, as does `OverflowError`.
        """
        if self._avro is not None:
            out = io.BytesIO()
            fastavro.schemaless_writer(out, self._avro, value)
            return out.getvalue()
        if value is None and self._nullable:
            return None
        wrong = isinstance(value, bool) and self._classes in (Integral, Real)
        if wrong or not isinstance(value, self._classes):
            raise TypeError(f"field {self.field.name!r} takes {self.field.type}, not {type(value).__name__}")
        if self._classes is Integral:
            number = int(value)
            if number not in _INTEGERS[self.field.type]:
                raise OverflowError(f"field {self.field.name!r} takes {self.field.type}, and {number} does not fit")
            return number
        if self._classes is Real:
            return float(value)
        if self._classes is str:
            value.encode()
        return value

    def test(self, class_: type) -> Test | None:
        """What tells whether a value of this class, which the column takes, is in its range; None if all are."""
        if class_ is int:
            return _INTEGERS[self.field.type].__contains__
        return _is_text if class_ is str else None

    def values(self, column: Any) -> list[Any]:
        """The values of a received column.

        Raises:
            Exception: of fastavro or Arrow, if one of them cannot be read.
        """
        if self._avro is None:
            return column.to_pylist()  # type: ignore[no-any-return]
        return [self._read(body) for body in column.to_pylist()]

    def _read(self, body: bytes) -> Any:
        stream = io.BytesIO(body)
        value = fastavro.schemaless_reader(stream, self._avro, None)  # type: ignore[arg-type]
        if stream.tell() != len(body):
            raise ValueError(f"{len(body) - stream.tell()} bytes follow the value of field {self.field.name!r}")
        return value


def _is_text(value: str) -> bool:
    """Whether UTF-8 can carry it: a text may have half of a surrogate pair."""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _arrow_type(avro_type: Any) -> tuple[Any, Any] | None:
    if isinstance(avro_type, dict):
        logical = avro_type.get("logicalType")
        if logical is None and avro_type.get("type") in _PRIMITIVES:
            return _PRIMITIVES[avro_type["type"]]
        return _LOGICAL.get((avro_type.get("type"), logical))
    return _PRIMITIVES.get(avro_type) if isinstance(avro_type, str) else None


class PackCodec:
    """Turns rows of a stream into packs, and back; a `tuple_tree.payloads.PayloadCodec`.

    Args:
        stream: whose.

    Attributes:
        schema: the Arrow schema of its packs.
    """

    max_rows = MAX_ROWS

    def __init__(self, stream: Stream) -> None:
        self._columns = [_Column(field.name, field.type) for field in stream.fields]
        self._fields = [column.field for column in self._columns]
        self._embeds = any(column.embedded for column in self._columns)
        # Classes of values → positions and tests of those whose class does not say that they fit.
        self._tests: dict[tuple[type, ...], list[tuple[int, Test]]] = {}
        self.schema = pa.schema(self._fields)

    def row(self, values: Sequence[Any]) -> Values:
        """Makes the values of a tuple, as many as the stream has fields, a row.

        Raises:
            TypeError: if a value is of a type that the field does not take.
            Exception: `OverflowError`, `UnicodeEncodeError`, or one of fastavro's, if a value does not fit otherwise.
        """
        row = tuple(column.value(value) for column, value in zip(self._columns, values, strict=True))
        as_they_are = all(made is value for made, value in zip(row, values, strict=True))
        if as_they_are and not self._embeds and len(self._tests) < _KNOWN_CLASSES:
            classes = tuple(map(type, values))
            tests = [
                (at, column.test(class_))
                for at, (column, class_) in enumerate(zip(self._columns, classes, strict=True))
            ]
            self._tests[classes] = [(at, test) for at, test in tests if test is not None]
        return row

    def is_row(self, values: Values) -> bool:
        """Whether the values are a row as they are; quicker than `row`, which says more."""
        tests = self._tests.get(tuple(map(type, values)))
        if tests is None:
            return False
        for at, test in tests:  # noqa: SIM110 - a loop is quicker than a generator
            if not test(values[at]):
                return False
        return True

    def encode(self, rows: Sequence[Values]) -> bytes:
        """The pack of some rows.

        Raises:
            Exception: of Arrow, if a value does not fit after all.
        """
        columns = [
            pa.array(values, type=field.type)
            for values, field in zip(zip(*rows, strict=True), self._fields, strict=True)
        ]
        payload: bytes = pa.RecordBatch.from_arrays(columns, schema=self.schema).serialize().to_pybytes()
        return payload

    def decode_batch(self, payload: bytes) -> Any:
        """The record batch of a pack, which refers to the payload.

        Raises:
            WireError: if it is no pack of the stream.
        """
        try:
            source = pa.BufferReader(payload)
            batch = pa.ipc.read_record_batch(pa.ipc.read_message(source), self.schema)
            if source.tell() != len(payload):
                raise ValueError(f"{len(payload) - source.tell()} bytes follow it")
            # Arrow trusts lengths and offsets that it has not validated.
            batch.validate(full=True)
        except Exception as error:  # Arrow raises ArrowInvalid, OSError, EOFError, MemoryError and more
            raise WireError("bad-payload", f"not a record batch of the stream: {error!r}") from error
        if not batch.num_rows:
            raise WireError("bad-payload", "a record batch without rows")
        for field, column in zip(self._fields, batch.columns, strict=True):
            if column.null_count and not field.nullable:
                raise WireError("bad-payload", f"a null in field {field.name!r}, which is not nullable")
        return batch

    def decode(self, payload: bytes) -> tuple[list[Values], Mapping[int, WireError]]:
        """The values of each tuple, and what is wrong with those that cannot be read, by their index.

        Raises:
            WireError: if it is no pack of the stream.
        """
        batch = self.decode_batch(payload)
        try:
            return self._rows(batch), {}
        except Exception:  # noqa: BLE001 - of fastavro, and of Arrow, for dates that Python does not have
            return self._each_row(batch)

    def _rows(self, batch: Any) -> list[Values]:
        values = [column.values(each) for column, each in zip(self._columns, batch.columns, strict=True)]
        return list(zip(*values, strict=True))

    def _each_row(self, batch: Any) -> tuple[list[Values], Mapping[int, WireError]]:
        rows: list[Values] = []
        errors = {}
        for index in range(batch.num_rows):
            try:
                rows += self._rows(batch.slice(index, 1))
            except Exception as error:  # noqa: BLE001 - as above
                rows.append(())
                errors[index] = WireError("bad-payload", f"a value that is none of its field: {error!r}")
        return rows, errors

    def alone(self, payload: bytes, index: int) -> bytes:
        """A pack of one of the tuples of a pack.

        Raises:
            WireError: if it is no pack of the stream.
        """
        alone: bytes = self.decode_batch(payload).slice(index, 1).serialize().to_pybytes()
        return alone

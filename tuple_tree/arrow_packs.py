"""Packs: one or more tuples in a record.

A pack is the encapsulated record batch message of Arrow's IPC format, without its schema: a column for each field of
the stream, whose Arrow type follows from the field's Avro type.
"""

from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tuple_tree.errors import WireError
from tuple_tree.fields import INFINITE, NAIVE, Column, all_fit, read_avro_body
from tuple_tree.packs import MAX_ROWS
from tuple_tree.streams import StreamDeclaration, Values

_TYPES: Final = {
    str(type_): type_
    for type_ in (
        *(pa.string(), pa.binary(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_()),
        *(pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC"), pa.date32()),
    )
}


def _texts(values: Sequence[str]) -> Any:
    joined = "".join(values)
    if joined.isascii():
        return _joined(values, joined.encode(), pa.string())
    encoded = [value.encode() for value in values]
    return _joined(encoded, b"".join(encoded), pa.string())


def _joined(values: Sequence[str] | Sequence[bytes], joined: bytes, type_: Any) -> Any:
    ends = np.zeros(len(values) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, values), np.int32, len(values)), out=ends[1:])
    if ends[-1] != len(joined):  # more than 2 GiB
        return None
    return pa.Array.from_buffers(type_, len(values), [None, pa.py_buffer(ends), pa.py_buffer(joined)])


def _numbers(letter: str, type_: Any) -> Callable[[Sequence[Any]], Any]:
    """Makes columns of the C type with this letter."""
    return lambda values: pa.Array.from_buffers(type_, len(values), [None, pa.py_buffer(array(letter, values))])


_QUICK: Final[dict[str, Callable[[Sequence[Any]], Any]]] = {
    "string": _texts,
    "binary": lambda values: _joined(values, b"".join(values), pa.binary()),
    "int32": _numbers("i", pa.int32()),
    "int64": _numbers("q", pa.int64()),
    "float": _numbers("f", pa.float32()),
    "double": _numbers("d", pa.float64()),
}
"""Name of an Arrow type → a function that makes a column of values without nulls; it returns None if it cannot."""


class ArrowColumn(Column):
    def __init__(self, name: str, avro_type: Any) -> None:
        super().__init__(name, avro_type)
        self.field = pa.field(name, _TYPES[self._type.arrow], nullable=self._nullable)
        self._quick = _QUICK.get(self._type.arrow)

    def array(self, values: Sequence[Any]) -> Any:
        """The column of some values of a row's types. Raises an error of Arrow if one does not fit after all.

        Most columns are made of their buffers. Arrow's own conversion imports pandas if it is installed, which takes
        35 MB of memory and 0.15 s.
        """
        if self._quick is not None:
            try:
                if (made := self._quick(values)) is not None:
                    return made
            except (TypeError, ValueError, OverflowError):
                pass  # a null, or an error that Arrow raises as well
        return pa.array(values, type=self.field.type)

    def cast(self, column: Any) -> Any:
        """The column of a table as the field has it.

        Raises an error of Arrow, or as `checked`, if a value does not fit. Arrow's own cast makes a large number
        infinite, and takes a timestamp without a time zone for UTC.
        """
        arrow, given = self.field.type, column.type
        if given == arrow:
            return column
        if pa.types.is_timestamp(arrow) and pa.types.is_timestamp(given) and given.tz is None:
            raise TypeError(f"field {self.name!r} {NAIVE}")
        cast = column.cast(arrow)
        if arrow == pa.float32():
            import pyarrow.compute as pc  # takes 10 MB of memory, which other columns do not need

            if pc.any(pc.and_(pc.is_finite(column), pc.invert(pc.is_finite(cast)))).as_py():
                raise OverflowError(f"field {self.name!r} {INFINITE}")
        return cast

    def values(self, column: Any) -> list[Any]:
        """The values of a received column. Raises an error of fastavro or Arrow if one of them cannot be read."""
        if self._avro is None:
            return column.to_pylist()  # type: ignore[no-any-return]
        return [read_avro_body(self._avro, body) for body in column.to_pylist()]


class PackCodec:
    """Turns rows of a stream into packs, and back."""

    max_rows = MAX_ROWS

    def __init__(self, stream: StreamDeclaration) -> None:
        self._columns = [ArrowColumn(name, type_) for name, type_ in stream.field_types.items()]
        self._fields = [column.field for column in self._columns]
        # Whether `encode` takes the values of a tuple as they are; quicker than `row`, which names the error.
        self.is_row = all_fit(self._columns)
        self.schema = pa.schema(self._fields)

    def row(self, values: Sequence[Any]) -> Values:
        """Makes the values of a tuple, as many as the stream has fields, a row.

        Raises `TypeError` if a value is of a type that the field does not take; `OverflowError`,
        `UnicodeEncodeError`, or one of fastavro's, if a value does not fit otherwise.
        """
        return tuple(column.value(value) for column, value in zip(self._columns, values, strict=True))

    def encode(self, rows: Any) -> bytes:
        """The pack of some rows. Raises an error of Arrow if a value does not fit after all."""
        batch = rows if isinstance(rows, pa.RecordBatch) else self.columns(rows)
        payload: bytes = batch.serialize().to_pybytes()
        return payload

    def columns(self, rows: Sequence[Values]) -> Any:
        """A record batch of rows. Raises an error of Arrow if a value does not fit after all."""
        values = zip(*rows, strict=True) if rows else [()] * len(self._fields)
        columns = [column.array(given) for column, given in zip(self._columns, values, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def batch(self, data: Any) -> Any:
        """A record batch of the stream with the columns of any table.

        Raises an error of Arrow, or as `ArrowColumn.cast`, if a column is missing or its values do not fit.
        """
        table = data if isinstance(data, pa.RecordBatch) else pa.table(data)
        if table.schema != self.schema:
            table = table.select(self.schema.names)
            columns = [column.cast(given) for column, given in zip(self._columns, table.columns, strict=True)]
            table = type(table).from_arrays(columns, schema=self.schema)
        if isinstance(table, pa.Table):
            batches = table.combine_chunks().to_batches()
            if len(batches) > 1:
                raise ValueError("a column has more than 2 GiB of text or bytes: emit the rows in parts")
            table = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=self.schema)
        self._check_nulls(table)
        return table

    def decode_batch(self, payload: bytes) -> Any:
        """The record batch of a pack, a view of the payload. Raises `WireError` if it is not a pack of the stream."""
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
        try:
            self._check_nulls(batch)
        except ValueError as error:
            raise WireError("bad-payload", str(error)) from error
        return batch

    def _check_nulls(self, batch: Any) -> None:
        for field, column in zip(self._fields, batch.columns, strict=True):
            if column.null_count and not field.nullable:
                raise ValueError(f"a null in field {field.name!r}, which is not nullable")

    def decode(self, payload: bytes) -> tuple[list[Values], Mapping[int, WireError]]:
        """The values of each tuple, and the errors of unreadable tuples by index.

        Raises `WireError` if it is not a pack of the stream.
        """
        return self.readable(self.decode_batch(payload))

    def readable(self, batch: Any) -> tuple[list[Values], Mapping[int, WireError]]:
        """The values of each row of a record batch, and the errors of unreadable rows by index."""
        try:
            return self.rows(batch), {}
        except Exception:  # noqa: BLE001 - of fastavro, and of Arrow, for dates that Python does not have
            return self._each_row(batch)

    def rows(self, batch: Any) -> list[Values]:
        """The values of each row of a record batch. Raises an error of fastavro or Arrow if one cannot be read."""
        return list(zip(*(self.column(batch, position) for position in range(len(self._columns))), strict=True))

    def column(self, batch: Any, position: int) -> list[Any]:
        """The values of one field. Raises an error of fastavro or Arrow if one cannot be read."""
        return self._columns[position].values(batch.column(position))

    def embedded(self, position: int, values: Sequence[Any]) -> Any:
        """The column of a field whose values are Avro bodies. Raises an error of fastavro if a value does not fit."""
        return pa.array(map(self._columns[position].value, values), pa.binary())

    def distinct(self, batch: Any, position: int) -> tuple[Any, list[Any]]:
        """The distinct values of one field: for each row the index of its value, integers of shape `(n,)`; the values.

        Text comes as its UTF-8, which is what it is grouped by.
        """
        encoded = batch.column(position).dictionary_encode(null_encoding="encode")
        values = encoded.dictionary
        if values.type == pa.string():
            return encoded.indices.to_numpy(), values.cast(pa.binary()).to_pylist()
        return encoded.indices.to_numpy(), self._columns[position].values(values)

    def _each_row(self, batch: Any) -> tuple[list[Values], Mapping[int, WireError]]:
        rows: list[Values] = []
        errors = {}
        for index in range(batch.num_rows):
            try:
                rows += self.rows(batch.slice(index, 1))
            except Exception as error:  # noqa: BLE001 - as above
                rows.append(())
                errors[index] = WireError("bad-payload", f"the value does not match the field's type: {error!r}")
        return rows, errors

    def alone(self, payload: bytes, index: int) -> bytes:
        """A pack of one of the tuples of a pack. Raises `WireError` if it is not a pack of the stream."""
        alone: bytes = self.decode_batch(payload).slice(index, 1).serialize().to_pybytes()
        return alone

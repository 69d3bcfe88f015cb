"""Payloads: how a record carries the values of tuples, by the codec of their stream; see `schemas/README.md`.

A pack has one or more tuples. It is the encapsulated record batch message of Arrow's IPC format, without its schema: a
column for each field of the stream, whose Arrow type follows from the field's Avro type. The other codecs have one
tuple a record.
"""

import datetime
import io
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import fastavro
import pyarrow as pa

from tuple_tree.errors import WireError
from tuple_tree.fields import Column, all_fit, plain
from tuple_tree.state_fields import quick_writer
from tuple_tree.streams import Stream, Values

MAX_ROWS: Final = 1_000  # tuples of a pack at most
MAX_BYTES: Final = 256 * 1024  # bytes of a pack of more than one tuple at most


class PackCodec:
    """Turns rows of a stream into packs, and back."""

    max_rows = MAX_ROWS

    def __init__(self, stream: Stream) -> None:
        self._columns = [Column(name, type_) for name, type_ in stream.field_types.items()]
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
        """A record batch of one row or more. Raises an error of Arrow if a value does not fit after all."""
        columns = [
            pa.array(values, type=field.type)
            for values, field in zip(zip(*rows, strict=True), self._fields, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def batch(self, data: Any) -> Any:
        """A record batch of the stream with the columns of any table.

        Raises an error of Arrow, or as `Column.cast`, if a column is missing or its values do not fit.
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
        """The record batch of a pack, which refers to the payload. Raises `WireError` if it is none of the stream."""
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
        """The values of each tuple, and what is wrong with those that cannot be read, by their index.

        Raises `WireError` if it is no pack of the stream.
        """
        return self.readable(self.decode_batch(payload))

    def readable(self, batch: Any) -> tuple[list[Values], Mapping[int, WireError]]:
        try:
            return self.rows(batch), {}
        except Exception:  # noqa: BLE001 - of fastavro, and of Arrow, for dates that Python does not have
            return self._each_row(batch)

    def rows(self, batch: Any) -> list[Values]:
        """The values of each row of a record batch. Raises an error of fastavro or Arrow if one cannot be read."""
        return list(zip(*(self.column(batch, position) for position in range(len(self._columns))), strict=True))

    def column(self, batch: Any, position: int) -> list[Any]:
        return self._columns[position].values(batch.column(position))

    def embedded(self, position: int, values: Sequence[Any]) -> Any:
        """The column of a field whose values are Avro bodies. Raises an error of fastavro if a value does not fit."""
        return pa.array(map(self._columns[position].value, values), pa.binary())

    def distinct(self, batch: Any, position: int) -> tuple[Any, list[Any]]:
        """The different values of one field: for each row which of them, shape `(n,)` of integers, and these.

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
                errors[index] = WireError("bad-payload", f"a value that is none of its field: {error!r}")
        return rows, errors

    def alone(self, payload: bytes, index: int) -> bytes:
        """A pack of one of the tuples of a pack. Raises `WireError` if it is no pack of the stream."""
        alone: bytes = self.decode_batch(payload).slice(index, 1).serialize().to_pybytes()
        return alone


_NO_ERRORS: Final[Mapping[int, WireError]] = {}


class _SingleCodec(ABC):
    """A codec of one tuple a record, which is encoded when it is emitted; `PackCodec` describes the methods."""

    max_rows = 1

    def __init__(self, stream: Stream) -> None:
        self._names = stream.field_names
        self._columns = [Column(name, type_) for name, type_ in stream.field_types.items()]

    @abstractmethod
    def row(self, values: Sequence[Any]) -> bytes: ...

    def is_row(self, values: Values) -> bool:  # noqa: ARG002 - `encode` takes payloads
        return False

    def encode(self, rows: Sequence[Any]) -> bytes:
        payload: bytes
        (payload,) = rows
        return payload

    def decode(self, payload: bytes) -> tuple[list[Values], Mapping[int, WireError]]:
        return [self._values(payload)], _NO_ERRORS

    def alone(self, payload: bytes, index: int) -> bytes:  # noqa: ARG002 - there is only one
        return payload

    @abstractmethod
    def _values(self, payload: bytes) -> Values: ...


class LocalCodec:
    """For a stream that only chained bolts receive: values of the fields' types go from bolt to bolt as they are.

    `PackCodec` describes what it has.
    """

    max_rows = MAX_ROWS

    def __init__(self, stream: Stream) -> None:
        self._codec = payload_codec(stream)
        columns = [Column(name, type_) for name, type_ in stream.field_types.items()]
        self.is_row = all_fit(columns, by_class=True)

    def row(self, values: Sequence[Any]) -> Values:
        """The values as a bolt would receive them through Kafka; raises as the stream's codec."""
        (row,) = decode_tuples(self._codec, encode_tuples(self._codec, [values]))
        return row

    def batch(self, data: Any) -> Any:
        """As of a `PackCodec`."""
        return self._codec.batch(data)  # type: ignore[union-attr]

    def readable(self, batch: Any) -> tuple[list[Values], Mapping[int, WireError]]:
        """As of a `PackCodec`."""
        return self._codec.readable(batch)  # type: ignore[union-attr]

    def encode(self, rows: Any) -> bytes:
        """The payload of rows that were handed over, for a dead letter."""
        return encode_tuples(self._codec, rows)


PayloadCodec = PackCodec | _SingleCodec  # turns rows into the payload of a record, and back


class _AvroCodec(_SingleCodec):
    def __init__(self, stream: Stream) -> None:
        super().__init__(stream)
        self._schema = fastavro.parse_schema(stream.avro_schema())
        self._fit = all_fit(self._columns)

    def row(self, values: Sequence[Any]) -> bytes:
        if not self._fit(values):  # type: ignore[arg-type]
            values = [column.checked(value) for column, value in zip(self._columns, values, strict=True)]
        out = io.BytesIO()
        fastavro.schemaless_writer(out, self._schema, dict(zip(self._names, values, strict=True)))
        return out.getvalue()

    def _values(self, payload: bytes) -> Values:
        body = io.BytesIO(payload)
        try:
            record = cast(dict[str, Any], fastavro.schemaless_reader(body, self._schema, None))
        except Exception as error:  # fastavro raises EOFError, ValueError, IndexError and more
            raise WireError("bad-payload", f"not the stream's Avro record: {error!r}") from error
        if body.tell() != len(payload):
            raise WireError("bad-payload", f"{len(payload) - body.tell()} bytes follow the stream's Avro record")
        return tuple(record.values())


class _JsonCodec(_SingleCodec):
    def __init__(self, stream: Stream) -> None:
        super().__init__(stream)
        self._quick = quick_writer(stream.fields, is_single=False, is_ascii=True)

    def row(self, values: Sequence[Any]) -> bytes:
        quick: Any = self._quick
        if quick is not None and len(values) == len(self._names) and (text := quick(values)) is not None:
            return text.encode()  # type: ignore[no-any-return]
        for column, value in zip(self._columns, values, strict=True):
            column.check_limits(value)
        # NaN and infinity are no JSON.
        record = dict(zip(self._names, values, strict=True))
        return json.dumps(record, separators=(",", ":"), allow_nan=False, default=_json_value).encode()

    def _values(self, payload: bytes) -> Values:
        try:
            record = json.loads(payload)
            return tuple(record[name] for name in self._names)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise WireError("bad-payload", f"not a JSON object with the stream's fields: {error!r}") from error


def _json_value(value: Any) -> Any:
    """A value that JSON has no type for as one that it has, if it is one of numpy's scalars."""
    if (made := plain(value)) is not value:
        return made
    if isinstance(value, datetime.date):
        raise TypeError("JSON has no type for times: pass text, such as value.isoformat(), or use codec arrow or avro")
    raise TypeError(f"JSON has no type for a {type(value).__name__}")


class _BytesCodec(_SingleCodec):
    def row(self, values: Sequence[Any]) -> bytes:
        (value,) = values
        if not isinstance(value, bytes):
            raise TypeError(f"field {self._names[0]!r} of a bytes stream must be bytes, not {type(value).__name__}")
        return value

    def _values(self, payload: bytes) -> Values:
        return (payload,)


_CODECS: Final[dict[str, Callable[[Stream], PayloadCodec]]] = {
    "arrow": PackCodec,
    "avro": _AvroCodec,
    "json": _JsonCodec,
    "bytes": _BytesCodec,
}


def payload_codec(stream: Stream) -> PayloadCodec:
    return _CODECS[stream.codec](stream)


def encode_tuples(codec: PayloadCodec, tuples: Sequence[Sequence[Any]]) -> bytes:
    return codec.encode([codec.row(values) for values in tuples])


def decode_tuples(codec: PayloadCodec, payload: bytes) -> list[Values]:
    """The values of all tuples of a payload. Raises `WireError` if one of them cannot be read."""
    rows, errors = codec.decode(payload)
    for error in errors.values():
        raise error
    return rows

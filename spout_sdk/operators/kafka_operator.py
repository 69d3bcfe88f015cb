"""The operators of `KafkaBolt`: make a record of each tuple, and write the records of a call together."""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from spout_sdk.api.tuples import InputPack, InputStream, Tuple
from spout_sdk.bolts.call_sizes import BatchSize
from spout_sdk.bolts.input_rows import ArrowInput
from spout_sdk.bolts.operator import Operator
from spout_sdk.bolts.settlement import Settlement
from spout_sdk.emitting.task import Task
from tuple_tree.payloads import PayloadCodec, payload_codec
from tuple_tree.streams import declare

Part = str | Callable[[Tuple], bytes | str | None] | None
"""A field, or a function of the tuple, that makes a part of a record."""

_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


class KafkaOperator(Operator):
    """Writes a record for each tuple, which is acked when its record is delivered."""

    def prepare(self) -> None:
        """Makes the codec of the values of each stream that the bolt receives."""
        bolt, context = self._bolt, self._task.context
        self._codecs: dict[tuple[str, str], tuple[PayloadCodec, list[int]]] = {}
        self._writers: dict[InputStream, _Writer] = {}
        for subscription in getattr(context.manifest.component(context.component), "subscriptions", ()):
            stream = context.manifest.stream(subscription.source, subscription.stream)
            if not callable(bolt.value) and not isinstance(bolt.value, str):
                names = stream.field_names
                places = [names.index(name) for name in (names if bolt.value is None else bolt.value)]
                fields = {stream.fields[place].name: stream.fields[place].type for place in places}
                made = payload_codec(declare(fields, codec=bolt.codec))
                self._codecs[subscription.source, stream.name] = made, places

    def process(self, inputs: Any) -> None:
        """Writes records for tuples of one pack, and handles exceptions of the user's functions."""
        tuples: Sequence[Tuple] = inputs
        if tuples[0].is_tick:
            return
        stream = tuples[0].pack.stream
        if (writer := self._writers.get(stream)) is None:
            self._writers[stream] = writer = self._writer(stream)
        key_of, value_of, headers_of = writer
        topic, failures, pack = self._bolt.topic, self.failures, tuples[0].pack
        batch = _Records("" if callable(topic) else topic)
        for tuple_ in tuples:
            try:
                if callable(topic) and (to := self._topic(tuple_)) != batch.topic:
                    batch.write(self._settlement, pack, tuples)
                    batch = _Records(to)
                key = None if key_of is None else key_of(tuple_)
                headers = [(name, header(tuple_)) for name, header in headers_of] if headers_of else None
                value = value_of(tuple_)
            except BaseException as error:  # noqa: BLE001 - anything that a user's function raises
                failures.handle((tuple_,), error)
                if failures.is_paused:
                    self._defer_after(tuple_, tuples)
                    break
                continue
            failures.in_a_row = 0
            batch.indices.append(tuple_.index)
            batch.values.append(value)
            if key_of is not None:
                batch.keys.append(key)
            if headers is not None:
                batch.headers.append(headers)
        batch.write(self._settlement, pack, tuples)

    def cleanup(self) -> None:
        """Does nothing: the task sends the remaining records."""

    def _topic(self, tuple_: Tuple) -> str:
        topic = self._bolt.topic(tuple_)
        if not isinstance(topic, str):
            raise TypeError(
                f"topic= of a KafkaBolt returned {topic!r}: return the name of a topic that exists, or drop the tuple "
                "in a bolt before this one"
            )
        if not _TOPIC.fullmatch(topic):
            # The client would raise after other records of the call were sent.
            raise ValueError(
                f"topic= of a KafkaBolt returned {topic!r}: names of topics have 1 to 249 letters, digits, dots, "
                "underscores and hyphens"
            )
        return topic

    def _writer(self, stream: InputStream) -> "_Writer":
        bolt = self._bolt
        headers = [(name, _getter(part, stream)) for name, part in bolt.headers.items()]
        key = None if bolt.key is None else _getter(bolt.key, stream)
        if callable(bolt.value) or isinstance(bolt.value, str):
            return _Writer(key, _getter(bolt.value, stream), headers)
        codec, places = self._codecs[stream.component, stream.stream]
        row, encode = codec.row, codec.encode
        if places == [*range(len(stream.fields))]:
            return _Writer(key, lambda tuple_: encode([row(tuple_.values)]), headers)

        def value(tuple_: Tuple) -> bytes:
            values = tuple_.values
            return encode([row([values[place] for place in places])])

        return _Writer(key, value, headers)


class KafkaColumnsOperator(KafkaOperator):
    """Writes records for the rows of a record batch, if the records are made of fields only."""

    takes_columns = takes_several = True
    makes_size = BatchSize

    def process(self, inputs: Any) -> None:
        """Writes records for rows; if one record cannot be made, continues tuple by tuple."""
        if not isinstance(inputs, ArrowInput):  # a tick tuple, or tuples that are executed again
            super().process(inputs)
            return
        rows, bolt, stream = inputs, self._bolt, inputs.pack.stream
        try:
            keys = None if bolt.key is None else self._bytes(rows, stream.fields[bolt.key])
            values = self._values(rows, stream)
        except Exception:  # noqa: BLE001 - any exception of a codec, for a value that it does not take
            super().process(list(rows))
            return
        self._settlement.writes.write_all(rows.pack, rows.indices.tolist(), bolt.topic, keys, values, tuples=rows)
        self.failures.in_a_row = 0

    def _values(self, rows: ArrowInput, stream: InputStream) -> Sequence[bytes | None]:
        value = self._bolt.value
        if isinstance(value, str):
            return self._bytes(rows, stream.fields[value])
        codec, places = self._codecs[stream.component, stream.stream]
        columns = [rows.codec.column(rows.batch, place) for place in places]
        return [codec.encode([codec.row(row)]) for row in zip(*columns, strict=True)]

    @staticmethod
    def _bytes(rows: ArrowInput, place: int) -> list[bytes | None]:
        import pyarrow as pa  # loaded already, as there is a record batch

        column = rows.batch.column(place)
        found: list[bytes | None] = column.cast(pa.binary()).to_pylist()
        return found


_TEXTS: Final[tuple[Any, ...]] = ("string", "bytes")


def kafka_operator(bolt: Any, task: Task, *rest: Any) -> KafkaOperator:
    """The operator of a bolt: with columns, if it receives columns and its records are made of fields only."""
    manifest = task.topology.manifest
    subscriptions = getattr(manifest.component(task.context.component), "subscriptions", ())
    streams = [manifest.stream(each.source, each.stream) for each in subscriptions]
    parts = [bolt.key, *([] if isinstance(bolt.value, list | tuple | None) else [bolt.value])]
    fields = [part for part in parts if isinstance(part, str)]
    are_fields = len(fields) == sum(part is not None for part in parts) and not (bolt.headers or callable(bolt.topic))
    has_bytes = all(stream.field_types.get(field) in _TEXTS for stream in streams for field in fields)
    is_packed = all(stream.codec == "arrow" for stream in streams)
    if are_fields and has_bytes and is_packed and task.receives_columns:
        return KafkaColumnsOperator(bolt, task, *rest)
    return KafkaOperator(bolt, task, *rest)


class _Records:
    """Records for one topic, of the tuples of one pack."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.indices: list[int] = []
        self.values: list[bytes | None] = []
        self.keys: list[bytes | None] = []
        self.headers: list[Any] = []

    def write(self, settlement: Settlement, pack: InputPack, tuples: Sequence[Tuple]) -> None:
        if self.indices:
            keys, headers = self.keys or None, self.headers or None
            settlement.writes.write_all(pack, self.indices, self.topic, keys, self.values, headers, tuples=tuples)


Getter = Callable[[Tuple], bytes | None]


class _Writer(NamedTuple):
    """Makes the parts of the records of a stream's tuples."""

    key: Getter | None
    value: Getter
    headers: Sequence[tuple[str, Getter]]


def _getter(part: Part, stream: InputStream) -> Getter:
    """A function that makes a key, value or header from a tuple of the stream."""
    if part is None:
        return lambda tuple_: None  # noqa: ARG005 - the signature of the others
    if callable(part):
        made_by = part
        return lambda tuple_: _part(made_by(tuple_))
    place = stream.fields[part]

    def getter(tuple_: Tuple) -> bytes | None:
        made = tuple_.values[place]
        return made if made.__class__ is bytes else _part(made)

    return getter


def _part(made: Any) -> bytes | None:
    if isinstance(made, str):
        return made.encode()
    if made is None or isinstance(made, bytes):
        return made
    raise TypeError(f"keys, values and headers of records are text or bytes, not {type(made).__name__}: convert it")

"""`KafkaBolt`: where results leave a topology, for a topic of the user's."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from spout_sdk.api.components import Bolt
from spout_sdk.api.context import TaskContext
from spout_sdk.api.tuples import InputStream, Tuple
from spout_sdk.arguments import check_choice
from spout_sdk.bolts.collectors import OutputCollector
from spout_sdk.errors import TopologyError
from tuple_tree.payloads import PayloadCodec, payload_codec
from tuple_tree.streams import Stream, declare

Codec = Literal["json", "avro", "bytes"]
Part = str | Callable[[Tuple], bytes | str | None] | None


class KafkaBolt(Bolt):
    """Writes each tuple as a record of a topic that is not the topology's.

    A tuple is acked when its record is delivered, and its tree fails when it is not. So with `at_least_once` each tuple
    is in the topic once, and again for each replay; with `at_most_once` once or not at all; with `exactly_once` the
    records are part of the bolt's transactions, and consumers with `isolation.level=read_committed` see each once.

        builder.set_bolt("publish", lambda: KafkaBolt("word-counts", key="word")).shuffle_grouping("count")

    Records with a key go to the partition of its murmur2 hash, as those of Kafka's own clients; others to any.

    Args:
        topic: its name, or a function that makes it of a tuple. It has to exist: the first tuple for a missing topic
            fails after about five seconds, and later tuples fail at once.
        key: a field of text or bytes, or a function of the tuple that returns either; None for records without keys.
        value: the fields of the record's value, in order, or a function of the tuple that returns text or bytes, or
            None for a tombstone; all fields of the tuple unless given.
        headers: header name → a field of text or bytes, or a function of the tuple.
        codec: how fields make a value: `json`, an object; `avro`, the bare body of a record of the fields; `bytes`, the
            only one, text or bytes, as it is.

    Attributes:
        topic: as given. If it is a name, the bolt does not start without it, and `acker run --local` creates it.

    Raises:
        TopologyError: if an argument is none of these.
    """

    def __init__(
        self,
        topic: str | Callable[[Tuple], str],
        *,
        key: Part = None,
        value: Sequence[str] | Callable[[Tuple], bytes | str | None] | None = None,
        headers: dict[str, Part] | None = None,
        codec: Codec = "json",
    ) -> None:
        if isinstance(value, str):
            raise TopologyError(f"value={value!r} of a KafkaBolt is text: write value=[{value!r}] for one field")
        check_choice("codec of a KafkaBolt", codec, Codec)
        self.topic = topic
        self._key = key
        self._value: Sequence[str] | Part = value
        self._headers = dict(headers or {})
        self._codec: Codec = codec
        if codec == "bytes" and not callable(value):
            if value is None or len(value) != 1:
                raise TopologyError("codec='bytes' of a KafkaBolt takes one field: name it, as in value=['text']")
            self._value = value[0]

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self._collector = collector
        self._codecs: dict[tuple[str, str], tuple[PayloadCodec, list[int]]] = {}
        self._writers: dict[InputStream, _Writer] = {}
        for subscription in getattr(context.manifest.component(context.component), "subscriptions", ()):
            stream = context.manifest.stream(subscription.source, subscription.stream)
            where = f"{subscription.source}/{stream.name}"
            for field in (self._key, *self._headers.values()):
                if isinstance(field, str):
                    _position(stream, field, where)
            if isinstance(self._value, str):
                _position(stream, self._value, where)
            elif not callable(self._value):
                names = list(self._value if self._value is not None else stream.field_names)
                places = [_position(stream, name, where) for name in names]
                fields = {stream.fields[place].name: stream.fields[place].type for place in places}
                made = payload_codec(declare(fields, codec=self._codec))
                self._codecs[subscription.source, stream.name] = made, places

    def execute(self, tuple_: Tuple) -> None:
        if tuple_.is_tick:
            return
        topic = self.topic(tuple_) if callable(self.topic) else self.topic
        if not isinstance(topic, str):
            raise TypeError(
                f"topic= of a KafkaBolt returned {topic!r}: return the name of a topic that exists, or drop the tuple "
                "in a bolt before this one"
            )
        stream = tuple_.pack.stream
        if (writer := self._writers.get(stream)) is None:
            self._writers[stream] = writer = self._writer(stream)
        headers = [(name, header(tuple_)) for name, header in writer.headers]
        key = writer.key(tuple_)
        self._collector.write(tuple_, topic, writer.value(tuple_), key=key, headers=headers)

    def _writer(self, stream: InputStream) -> "_Writer":
        headers = [(name, _getter(part, stream)) for name, part in self._headers.items()]
        if callable(self._value) or isinstance(self._value, str):
            return _Writer(_getter(self._key, stream), _getter(self._value, stream), headers)
        codec, places = self._codecs[stream.component, stream.stream]
        row, encode = codec.row, codec.encode
        if places == [*range(len(stream.fields))]:
            return _Writer(_getter(self._key, stream), lambda tuple_: encode([row(tuple_.values)]), headers)

        def value(tuple_: Tuple) -> bytes:
            values = tuple_.values
            return encode([row([values[place] for place in places])])

        return _Writer(_getter(self._key, stream), value, headers)


Getter = Callable[[Tuple], bytes | None]


class _Writer(NamedTuple):
    """Makes the parts of the records of a stream's tuples."""

    key: Getter
    value: Getter
    headers: Sequence[tuple[str, Getter]]


def _position(stream: Stream, field: str, where: str) -> int:
    if field not in stream.field_names:
        raise TopologyError(
            f"a KafkaBolt is to write field {field!r}, and stream {where} has {', '.join(stream.field_names)}: name "
            "one of them, or pass a function of the tuple"
        )
    return stream.field_names.index(field)


def _getter(part: Part, stream: InputStream) -> Getter:
    """A function that makes a part of a record of a tuple of the stream."""
    if part is None:
        return lambda tuple_: None  # noqa: ARG005 - as the others
    if callable(part):
        made_by = part
        return lambda tuple_: _part(made_by(tuple_))
    place = stream.fields[part]
    return lambda tuple_: _part(tuple_.values[place])


def _part(made: Any) -> bytes | None:
    if isinstance(made, str):
        return made.encode()
    if made is None or isinstance(made, bytes):
        return made
    raise TypeError(f"keys, values and headers of records are text or bytes, not {type(made).__name__}: convert it")

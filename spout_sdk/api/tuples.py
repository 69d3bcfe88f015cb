"""The tuple, as a bolt receives it."""

from collections.abc import Iterator
from typing import Any, Final

from spout_sdk.errors import TupleAlreadyDoneError
from spout_sdk.records import Headers, MadeRecord, Record
from tuple_tree.anchors import ANCHOR_COUNTS_HEADER, ANCHORS_HEADER, Edges
from tuple_tree.headers import TRACEPARENT
from tuple_tree.ids import IdColumn
from tuple_tree.payloads import PayloadCodec
from tuple_tree.streams import Values


class InputStream:
    """A stream that a bolt receives; tick tuples have no codec."""

    __slots__ = ("codec", "component", "fields", "stream")

    def __init__(self, component: str, stream: str, fields: tuple[str, ...], codec: PayloadCodec | None = None) -> None:
        self.codec = codec
        self.component = component
        self.stream = stream
        self.fields = {name: position for position, name in enumerate(fields)}  # field name → position


class InputPack:
    """A record, as its `size` tuples share it."""

    __slots__ = ("ids", "left", "offset", "record", "size", "stream", "trace_context")

    def __init__(self, record: Record, stream: InputStream, offset: int, size: int, trace_context: Headers) -> None:
        self.record = record
        self.stream = stream
        self.offset = offset
        self.size = self.left = size  # left: tuples that are neither acked nor failed
        self.trace_context = trace_context  # the headers of their trace; tuples anchored to them get it as well
        # Shape `(2 * size,)`: root and edge of each, in turn; None unless each has one of both.
        self.ids: IdColumn | None = None

    @property
    def partition(self) -> int:
        partition = self.record.partition()
        return -1 if partition is None else partition

    @property
    def has_untracked(self) -> bool:
        """Whether some of its tuples belong to no tree."""
        if self.ids is not None:
            return False
        headers: Any = self.record.headers() or ()
        named = dict(headers)
        counts = named.get(ANCHOR_COUNTS_HEADER) or b""
        return not named.get(ANCHORS_HEADER) or any(counts[at : at + 2] == b"\0\0" for at in range(0, len(counts), 2))

    def already_done(self, action: str) -> TupleAlreadyDoneError:
        return TupleAlreadyDoneError(action, str(self.record.topic()), self.partition, self.offset)


class Tuple:
    """One tuple of a stream, delivered to one task.

    Read a value by field name (`t["word"]`) or position (`t[0]`), or all of them (`t.values`, `word, count = t`).

    Attributes:
        values: in the order of the stream's fields.
        index: which of the tuples of its record, from 0.
        root: the one tree that it belongs to; None if it belongs to none, or to several. For the SDK's use.
        edge: id of this delivery, in the checksum of `root`. For the SDK's use.
        many: root → edge id, of a tuple of several trees; else None. For the SDK's use.
        out: XOR of the edge ids of everything emitted anchored to it. For the SDK's use.
        settled: True once it was acked or failed.
    """

    __slots__ = ("edge", "index", "many", "out", "pack", "root", "settled", "values")

    def __init__(
        self, values: Values, root: int | None, edge: int, many: Edges | None, pack: InputPack, index: int
    ) -> None:
        self.values = values
        # Nearly all tuples belong to one tree, and a dict for each of them would cost as much as the rest of it.
        self.root = root
        self.edge = edge
        self.many = many
        self.pack = pack
        self.index = index
        self.out = 0
        self.settled = False

    @property
    def traceparent(self) -> str | None:
        """The trace that it belongs to, as in W3C Trace Context; None if its record has no such header."""
        value: Any = dict(self.pack.trace_context).get(TRACEPARENT)
        return None if value is None else value.decode(errors="replace")

    def __getitem__(self, field: str | int) -> Any:
        if isinstance(field, str):
            try:
                return self.values[self.pack.stream.fields[field]]
            except KeyError:
                raise KeyError(
                    f"stream {self.stream!r} of {self.component!r} has no field {field!r}: "
                    f"it has {', '.join(self.pack.stream.fields)}"
                ) from None
        return self.values[field]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        fields = zip(self.pack.stream.fields, self.values, strict=False)
        shown = ", ".join(f"{name}={value!r}" for name, value in fields)
        place = str(self.offset) if self.pack.size == 1 else f"{self.offset}.{self.index}"
        return f"<Tuple {self.component}/{self.stream} {self.topic}[{self.partition}]@{place} {shown}>"

    @property
    def component(self) -> str:
        """The component that emitted it."""
        return self.pack.stream.component

    @property
    def stream(self) -> str:
        """The stream that it was emitted to."""
        return self.pack.stream.stream

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of its fields, in order."""
        return tuple(self.pack.stream.fields)

    @property
    def record(self) -> Record:
        """The record that it was read from."""
        return self.pack.record

    @property
    def topic(self) -> str:
        """Its topic."""
        return str(self.pack.record.topic())

    @property
    def offset(self) -> int:
        """The offset of its record in the partition."""
        return self.pack.offset

    @property
    def partition(self) -> int:
        """Its partition, which is also the number of the task that received it."""
        return self.pack.partition

    @property
    def timestamp_ms(self) -> int:
        """The record's timestamp, in milliseconds since the epoch."""
        return self.pack.record.timestamp()[1]

    @property
    def key(self) -> bytes | None:
        """The record's key: of a stream with one tuple a record, the grouping fields of a fields grouping."""
        return self.pack.record.key()

    @property
    def edges(self) -> Edges:
        """Root → edge id of this delivery; empty for an untracked tuple. For the SDK's use."""
        if self.many is not None:
            return self.many
        return {} if self.root is None else {self.root: self.edge}

    @property
    def roots(self) -> tuple[int, ...]:
        """The trees that it belongs to."""
        return tuple(self.edges)

    @property
    def is_tracked(self) -> bool:
        """Whether it belongs to any tree."""
        return bool(self.edges)

    @property
    def is_tick(self) -> bool:
        """Whether it is a tick tuple: no record, but the time that has come. To ack or fail it changes nothing."""
        return self.pack.stream is _TICKS


class TracedTuple(Tuple):
    """A tuple that belongs to a trace: a class of its own, so that emits anchored to others need no check."""

    __slots__ = ()


# Where tick tuples come from, as in Storm.
SYSTEM_COMPONENT: Final = "__system"
TICK_STREAM: Final = "__tick"
_TICKS: Final = InputStream(SYSTEM_COMPONENT, TICK_STREAM, ())
UNKNOWN_STREAM: Final = InputStream("", "", ())  # of records that cannot be read
NO_OFFSET: Final = -1  # of a tuple without a record


def tick_tuple() -> Tuple:
    return Tuple((), None, 0, None, InputPack(MadeRecord(), _TICKS, NO_OFFSET, 1, []), 0)

"""The tuple, as a bolt receives it."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from spout_sdk.errors import TupleAlreadyDoneError
from spout_sdk.records import MadeRecord, Record
from tuple_tree.anchors import Edges, Rows
from tuple_tree.headers import TRACEPARENT
from tuple_tree.identities import NO_POSITION, IdentityColumns
from tuple_tree.input_batch import InputBatch
from tuple_tree.payloads import PayloadCodec
from tuple_tree.streams import Values

SEVERAL_PLACES: Final = -1
DONE: Final = 1
ACKED: Final = 2
FAILED: Final = 3
NO_TREES: Final = InputBatch(is_tracked=False)
"""The batch of tuples that belong to no tree and no trace."""


class InputStream:
    """A stream that a bolt receives; tick tuples have no codec."""

    __slots__ = ("codec", "component", "fields", "stream")

    def __init__(self, component: str, stream: str, fields: tuple[str, ...], codec: PayloadCodec | None = None) -> None:
        self.codec = codec
        self.component = component
        self.stream = stream
        self.fields = {name: position for position, name in enumerate(fields)}  # field name → position


class InputPack:
    """A record, shared by its `size` tuples.

    Attributes:
        settled: for each of its tuples 0 while it is open, then `ACKED` or `FAILED`; `DONE` when nothing that was made
            of it is open: no tuple in a step behind, and no record that is not delivered.
        is_counted: whether its open tuples are counted as open at the inputs that the task has read.
        has_expired: whether its open tuples failed because they were open for longer than any tree; their later
            outcomes have no effect.
        left: how many tuples are not done, and records of untracked tuples that are not delivered.
        batch: the batch with the anchors of its tuples; untracked tuples have none.
        first: place of the first anchor in the batch.
        starts: shape `(size + 1,)`: where the anchors of each tuple begin, from `first`; None if each tuple has one,
            or the batch is not tracked.
    """

    __slots__ = (
        *("batch", "first", "has_expired", "is_counted", "left", "offset"),
        *("record", "settled", "size", "starts", "stream"),
    )

    def __init__(
        self,
        record: Record,
        stream: InputStream,
        offset: int,
        size: int = 1,
        batch: InputBatch = NO_TREES,
        first: int = 0,
        starts: Rows | None = None,
    ) -> None:
        self.record = record
        self.stream = stream
        self.offset = offset
        self.size = self.left = size
        self.settled = bytearray(size)
        self.has_expired = self.is_counted = False
        self.batch, self.first, self.starts = batch, first, starts

    @property
    def partition(self) -> int:
        partition = self.record.partition()
        return -1 if partition is None else partition

    @property
    def has_untracked(self) -> bool:
        """Whether some of its tuples belong to no tree."""
        starts = self.starts
        return not self.batch.is_tracked or (starts is not None and bool((starts[1:] == starts[:-1]).any()))

    def places(self, index: int) -> range:
        """The places of a tuple's anchors in the batch."""
        if not self.batch.is_tracked:
            return range(0)
        if self.starts is None:
            return range(self.first + index, self.first + index + 1)
        return range(self.first + int(self.starts[index]), self.first + int(self.starts[index + 1]))

    def places_of(self, rows: Sequence[int] | Rows) -> Rows:
        """The places of the anchors of some tuples, by their indices, in the batch, which is tracked."""
        indices = np.asarray(rows, np.intp)
        if self.starts is None:
            return indices + self.first
        starts = self.starts
        counts = starts[indices + 1] - starts[indices]
        before = np.cumsum(counts) - counts
        # `counts` consecutive places from the first of each tuple.
        places: Rows = np.arange(counts.sum()) + np.repeat(starts[indices] - before, counts) + self.first
        return places

    @property
    def identities(self) -> IdentityColumns:
        """The identities of its tuples, with their paths at this bolt; only tuples with one anchor have any."""
        batch, first, starts = self.batch, self.first, self.starts
        if not (batch.is_tracked and batch.is_identified):
            return IdentityColumns.none(self.size)
        if starts is None:
            return IdentityColumns(batch.positions, batch.paths).part(first, first + self.size)
        found, single = IdentityColumns.none(self.size), np.flatnonzero(np.diff(starts) == 1)
        found.positions[single] = batch.positions[first + starts[single]]
        found.paths[single] = batch.paths[first + starts[single]]
        return found

    def reset_emit_sequence(self, index: int) -> None:
        """Begins another execution of a tuple: its emits get the same identities as those of the execution before."""
        self.batch.reset_emit_sequence(self.places(index))

    def tuple_at(self, index: int, values: Values) -> "Tuple":
        """One of its tuples, with these values."""
        if not self.batch.is_tracked:
            return Tuple(values, self, index, 0)
        places = self.places(index)
        return Tuple(values, self, index, places[0] if len(places) == 1 else SEVERAL_PLACES)

    def already_done(self, action: str) -> TupleAlreadyDoneError:
        return TupleAlreadyDoneError(action, str(self.record.topic()), self.partition, self.offset)


# A struct is made twice as fast as an object with an `__init__`. Nothing that a tuple refers to refers to it.
class Tuple(msgspec.Struct, eq=False, gc=False):
    """One tuple of a stream, delivered to one task.

    Read a value by field name (`t["word"]`) or position (`t[0]`), or all of them (`t.values`, `word, count = t`).

    Attributes:
        values: in the order of the stream's fields.
        index: its index among the tuples of its record, from 0.
        place: the place of its anchor in its record's input batch; -1 if it has none or several. For the SDK's use.
    """

    values: Values
    pack: InputPack
    index: int
    place: int

    @property
    def settled(self) -> bool:
        """Whether it was acked or failed."""
        return bool(self.pack.settled[self.index])

    @property
    def traceparent(self) -> str | None:
        """The trace that it belongs to, as in W3C Trace Context; None if its record has no such header."""
        value: Any = dict(self.pack.batch.trace_context).get(TRACEPARENT)
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
        """The record's key; with a fields grouping and one tuple per record, the values of the grouping fields."""
        return self.pack.record.key()

    @property
    def edges(self) -> Edges:
        """Root → edge id of this delivery; empty for an untracked tuple. For the SDK's use."""
        pack = self.pack
        roots, edges, places = pack.batch.roots, pack.batch.edges, pack.places(self.index)
        return {int(roots[place]): int(edges[place]) for place in places}

    @property
    def roots(self) -> tuple[int, ...]:
        """The trees that it belongs to."""
        return tuple(self.edges)

    @property
    def identity(self) -> str | None:
        """A text that no other tuple has, and that stays the same when the message is replayed or read again.

        It is made of the position of the message in the source and the path of the tuple through the topology. Only
        inputs of bolts with a state or windows, and of the bolts before them, have one. It is None for a tuple that is
        anchored to several inputs or to none, that does not come from a `KafkaSpout`, or that comes through Spark.
        """
        batch, place = self.pack.batch, self.place
        if not (batch.is_tracked and batch.is_identified) or place < 0:
            return None
        if (position := int(batch.positions[place])) == NO_POSITION:
            return None
        return f"{position:016x}{int(batch.paths[place]):016x}"

    @property
    def is_tracked(self) -> bool:
        """Whether it belongs to any tree."""
        return len(self.pack.places(self.index)) > 0

    @property
    def is_tick(self) -> bool:
        """Whether it is a tick tuple, which has no record. An ack or a fail of it has no effect."""
        return self.pack.stream is _TICKS


# Where tick tuples come from, as in Storm.
SYSTEM_COMPONENT: Final = "__system"
TICK_STREAM: Final = "__tick"
_TICKS: Final = InputStream(SYSTEM_COMPONENT, TICK_STREAM, ())
UNKNOWN_STREAM: Final = InputStream("", "", ())  # of records that cannot be read
NO_OFFSET: Final = -1  # of a tuple without a record


def tick_tuple() -> Tuple:
    return Tuple((), InputPack(MadeRecord(), _TICKS, NO_OFFSET), 0, SEVERAL_PLACES)

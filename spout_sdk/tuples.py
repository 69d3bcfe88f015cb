"""The tuple, as a bolt receives it."""

from collections.abc import Iterator
from typing import Any, Final

from spout_sdk.errors import TupleAlreadyDoneError
from spout_sdk.records import Headers, NoRecord, Record
from tuple_tree.anchors import Edges
from tuple_tree.streams import Values
from tuple_tree.trace_context import TRACEPARENT


class InputStream:
    """What all tuples of one stream have in common.

    Attributes:
        component: who emitted them.
        stream: to which of its streams.
        fields: field name → position.
    """

    __slots__ = ("component", "fields", "stream")

    def __init__(self, component: str, stream: str, fields: tuple[str, ...]) -> None:
        self.component = component
        self.stream = stream
        self.fields = {name: position for position, name in enumerate(fields)}


class Tuple:
    """One record of a stream, delivered to one task.

    Read a value by field name (`t["word"]`) or position (`t[0]`), or all of them (`t.values`, `word, count = t`).

    Attributes:
        values: in the order of the stream's fields.
        offset: of the record in its partition.
        root: the one tree that it belongs to; None if it belongs to none, or to several. For the SDK's use.
        edge: id of this delivery, in the checksum of `root`. For the SDK's use.
        many: root → edge id, of a tuple of several trees; else None. For the SDK's use.
        out: XOR of the edge ids of everything emitted anchored to it. For the SDK's use.
        settled: True once it was acked or failed.
        began: when its execution began, if that is timed; else 0. For the SDK's use.
    """

    __slots__ = ("_input", "_record", "began", "edge", "many", "offset", "out", "root", "settled", "values")

    def __init__(
        self,
        values: Values,
        root: int | None,
        edge: int,
        many: Edges | None,
        offset: int,
        record: Record,
        input_: InputStream,
    ) -> None:
        self.values = values
        # Nearly all tuples belong to one tree, and a dict for each of them would cost as much as the rest of it.
        self.root = root
        self.edge = edge
        self.many = many
        self.offset = offset
        self.out = 0
        self.settled = False
        self.began = 0.0
        self._record = record
        self._input = input_

    @property
    def trace_context(self) -> Headers:
        """The headers that say which trace it belongs to, which tuples anchored to it get as well; mostly none."""
        return []

    @property
    def traceparent(self) -> str | None:
        """The trace that it belongs to, as the W3C writes it; None if its record does not say."""
        return None

    def __getitem__(self, field: str | int) -> Any:
        if isinstance(field, str):
            try:
                return self.values[self._input.fields[field]]
            except KeyError:
                raise KeyError(
                    f"stream {self.stream!r} of {self.component!r} has no field {field!r}: "
                    f"it has {', '.join(self._input.fields)}"
                ) from None
        return self.values[field]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in zip(self._input.fields, self.values, strict=False))
        return f"<Tuple {self.component}/{self.stream} {self.topic}[{self.partition}]@{self.offset} {shown}>"

    @property
    def component(self) -> str:
        """The component that emitted it."""
        return self._input.component

    @property
    def stream(self) -> str:
        """The stream that it was emitted to."""
        return self._input.stream

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of its fields, in order."""
        return tuple(self._input.fields)

    @property
    def record(self) -> Record:
        """The record that it was read from."""
        return self._record

    @property
    def topic(self) -> str:
        """The topic that it lies in."""
        return str(self._record.topic())

    @property
    def partition(self) -> int:
        """The partition that it lies in, which is also the task that received it."""
        partition = self._record.partition()
        return -1 if partition is None else partition

    @property
    def timestamp_ms(self) -> int:
        """The record's timestamp, in milliseconds since the epoch."""
        return self._record.timestamp()[1]

    @property
    def key(self) -> bytes | None:
        """The record's key: the grouping fields of a fields grouping."""
        return self._record.key()

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
        return self._input is _TICKS

    def settle(self, action: str) -> None:
        """Marks it as acked or failed; for the SDK's use.

        Raises:
            TupleAlreadyDoneError: if it was before.
        """
        if self.settled:
            raise self.already_done(action)
        self.settled = True

    def already_done(self, action: str) -> TupleAlreadyDoneError:
        """The error that says that it was acked or failed before; for the SDK's use."""
        return TupleAlreadyDoneError(action, self.topic, self.partition, self.offset)


class TracedTuple(Tuple):
    """A tuple whose record says which trace it belongs to.

    A class of its own, so that emitting anchored to any other tuple has nothing to look for.
    """

    __slots__ = ("_trace_context",)

    def __init__(self, trace_context: Headers, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._trace_context = trace_context

    @property
    def trace_context(self) -> Headers:
        """See `Tuple`."""
        return self._trace_context

    @property
    def traceparent(self) -> str | None:
        """See `Tuple`."""
        said: Any = dict(self._trace_context).get(TRACEPARENT)
        return None if said is None else said.decode(errors="replace")


SYSTEM_COMPONENT: Final = "__system"
TICK_STREAM: Final = "__tick"
"""Where tick tuples come from, as in Storm."""

_TICKS: Final = InputStream(SYSTEM_COMPONENT, TICK_STREAM, ())

NO_OFFSET: Final = -1
"""The offset of a tuple that lies nowhere."""


def tick_tuple() -> Tuple:
    """A new tick tuple; for the SDK's use."""
    return Tuple((), None, 0, None, NO_OFFSET, NoRecord(), _TICKS)

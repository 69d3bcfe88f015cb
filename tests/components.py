"""Spouts and bolts for tests that need only their streams, and one bolt of each kind around a function."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from spout_sdk import (
    AsyncBolt,
    AsyncCollector,
    BasicBolt,
    BasicCollector,
    BatchBolt,
    Bolt,
    OutputCollector,
    Spout,
    StreamDeclaration,
    TaskContext,
    Tuple,
    declare,
)
from spout_sdk.arrow import ArrowBolt, ArrowCollector


def source(*streams: StreamDeclaration) -> type[Spout]:
    """A spout that emits nothing: a test, or the testing kit, emits in its place."""

    class Source(Spout):
        def next_tuple(self) -> None:
            """Emits nothing."""

    Source.streams = streams
    return Source


def passing(*streams: StreamDeclaration) -> type[BasicBolt]:
    """A bolt that emits each tuple as it is."""

    class Pass(BasicBolt):
        def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
            collector.emit(tuple_.values)

    Pass.streams = streams
    return Pass


class Split(BasicBolt):
    """Emits each word of the first field."""

    streams = (declare({"word": str}),)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        for word in tuple_.values[0].split():
            collector.emit((word,))


class Sink(BasicBolt):
    """Acks each tuple."""

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None: ...


class ByHand(Bolt):
    """Has its context, its collector, and the tuples that it holds."""

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self.context, self.collector = context, collector
        self.held: list[Tuple] = []


class InBatches(BatchBolt):
    """Has its context, its collector, and notes of its calls."""

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self.context, self.collector = context, collector
        self.calls: list[list[str]] = []


Emits = Iterable[tuple[Sequence[Any], str]]
"""Values and streams."""


class Kinds(NamedTuple):
    """Bolts that do the same, each in its way."""

    basic: type[BasicBolt]
    by_hand: type[ByHand]
    batches: type[InBatches]
    columns: type[ArrowBolt]
    coroutines: type[AsyncBolt]


def kinds(emits: Callable[[Sequence[Any], TaskContext], Emits], *streams_: StreamDeclaration) -> Kinds:
    """A bolt of each kind that emits what a function returns, or yields, for the values of an input."""

    class Basic(BasicBolt):
        streams = streams_

        def prepare(self, context: TaskContext) -> None:
            self.context = context

        def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
            for values, stream in emits(tuple_.values, self.context):
                collector.emit(values, stream=stream)

    class Each(ByHand):
        streams = streams_

        def execute(self, tuple_: Tuple) -> None:
            for number, (values, stream) in enumerate(emits(tuple_.values, self.context)):
                self.collector.emit(values, anchors=[tuple_] if number % 2 else tuple_, stream=stream)
            self.collector.ack(tuple_)

    class Batches(InBatches):
        streams = streams_

        def execute_batch(self, tuples: Sequence[Tuple]) -> None:
            for tuple_ in tuples:
                for values, stream in emits(tuple_.values, self.context):
                    self.collector.emit(values, anchors=tuple_, stream=stream)
            self.collector.ack_all(tuples)

    class Columns(ArrowBolt):
        streams = streams_

        def prepare(self, context: TaskContext) -> None:
            self.context = context

        def execute_batch(self, batch: Any, collector: ArrowCollector) -> None:
            emitted: list[tuple[int, Sequence[Any], str]] = []
            try:
                for row, values in enumerate(zip(*(column.to_pylist() for column in batch.columns), strict=True)):
                    emitted += ((row, *each) for each in emits(values, self.context))
            finally:
                for stream in streams_:
                    if rows := [(row, values) for row, values, name in emitted if name == stream.name]:
                        columns = map(list, zip(*(values for _, values in rows), strict=True))
                        data = dict(zip(stream.field_names, columns, strict=True))
                        collector.emit(data, anchors=[row for row, _ in rows], stream=stream.name)
            collector.ack()

    class Coroutines(AsyncBolt):
        streams = streams_

        async def prepare_async(self, context: TaskContext) -> None:
            self.context = context

        async def execute_async(self, tuple_: Tuple, collector: AsyncCollector) -> None:
            for values, stream in emits(tuple_.values, self.context):
                collector.emit(values, stream=stream)

    return Kinds(Basic, Each, Batches, Columns, Coroutines)

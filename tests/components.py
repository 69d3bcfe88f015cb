"""Spouts and bolts for tests that need only their streams."""

from spout_sdk import BasicBolt, BasicCollector, Spout, Stream, Tuple, declare


def source(*streams: Stream) -> type[Spout]:
    """A spout that emits nothing: a test, or the testing kit, emits in its place."""

    class Source(Spout):
        def next_tuple(self) -> None:
            """Emits nothing."""

    Source.streams = streams
    return Source


def passing(*streams: Stream) -> type[BasicBolt]:
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

"""A word count for the tests of the testing kit."""

from collections import Counter
from typing import Any

from spout_sdk import (
    BasicBolt,
    BasicCollector,
    FailTupleError,
    Spout,
    SpoutCollector,
    TaskContext,
    Topology,
    TopologyBuilder,
    Tuple,
    declare,
)
from spout_sdk.testing import SimulatedCluster
from tests.components import ByHand


class Lines(Spout):
    streams = (declare({"line": str}), declare({"line": str}, name="urgent"))

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        self.collector = collector
        self.left = 3

    def next_tuple(self) -> None:
        if self.left:
            self.left -= 1
            self.collector.emit((f"line {self.left}",), message_id=self.left)


class Hold(ByHand):
    """Acks its inputs when the test asks for it."""

    def execute(self, tuple_: Tuple) -> None:
        self.held.append(tuple_)

    def ack(self, tuples: list[Tuple]) -> None:
        for tuple_ in tuples:
            self.held.remove(tuple_)
            self.collector.ack(tuple_)


class Split(BasicBolt):
    streams = (declare({"word": str}),)
    cleaned_up = 0

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        if not tuple_["line"]:
            raise FailTupleError("nothing to split")
        for word in tuple_["line"].split():
            collector.emit((word,))

    def cleanup(self) -> None:
        type(self).cleaned_up += 1


class Count(ByHand):
    def prepare(self, *given: Any) -> None:
        super().prepare(*given)
        self.counts: Counter[str] = Counter()

    def execute(self, tuple_: Tuple) -> None:
        self.counts[tuple_["word"]] += 1
        self.context.count("words")
        self.collector.ack(tuple_)


def words(split: Any = Split, spout: Any = Lines, **settings: Any) -> Topology:
    builder = TopologyBuilder("words", **settings)
    builder.set_spout("lines", spout)
    builder.set_bolt("split", split, tasks=2).shuffle_grouping("lines").shuffle_grouping("lines", "urgent")
    builder.set_bolt("count", Count, tasks=2).fields_grouping("split", "word")
    return builder.build()


def fed(*lines: str, **settings: Any) -> SimulatedCluster:
    return SimulatedCluster(words(), sources={"lines": [(line,) for line in lines]}, **settings)
